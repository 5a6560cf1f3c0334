"""What the driver's errors mean to whoever asked."""

from __future__ import annotations

import socket
import ssl
from datetime import UTC, datetime

import asyncpg
import pytest

from anarchon.backends.postgres import PostgresBackend
from anarchon.backends.postgres.faults import translating
from anarchon.errors import OutcomeUnknown, StoreError, StoreRefused, StoreUnavailable
from anarchon.run import RunState
from anarchon.store import Finish, Outcome, Renewal
from tests.unit.postgres.conftest import NAMESPACE

SLOT = datetime(2026, 11, 29, 12, tzinfo=UTC)


def server_says(state: str, severity: str = "ERROR") -> Exception:
    return asyncpg.PostgresError.new({"C": state, "S": "ERREUR", "V": severity, "M": "it says no"})


def meaning(error: BaseException, *, asked: bool) -> StoreError:
    with pytest.raises(StoreError) as raised, translating("the store", asked=asked):
        raise error
    assert raised.value.store == "the store"
    assert raised.value.__cause__ is error
    return raised.value


@pytest.mark.parametrize(
    "state",
    ["40P01", "40001", "55P03", "57014", "53100", "53200", "42883"],
)
def test_what_the_server_undid_for_a_while_did_not_happen(state):
    assert type(meaning(server_says(state), asked=True)) is StoreUnavailable


@pytest.mark.parametrize("state", ["25006", "42501", "AN002"])
def test_what_the_server_will_not_do_as_things_stand_did_not_happen(state):
    assert type(meaning(server_says(state), asked=True)) is StoreRefused


@pytest.mark.parametrize("state", ["22021", "22P05", "23505", "54000", "XX000"])
def test_what_one_question_causes_is_no_outage(state):
    assert type(meaning(server_says(state), asked=True)) is StoreError


@pytest.mark.parametrize("state", ["57P01", "57P02", "57P05", "08P01", "25P03"])
def test_what_ends_the_session_may_come_after_the_commit(state):
    assert type(meaning(server_says(state, "FATAL"), asked=True)) is OutcomeUnknown


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"),
        asyncpg.InterfaceError("connection is closed"),
        asyncpg.InternalClientError("got result for unknown protocol state"),
        ConnectionResetError(),
        BrokenPipeError(),
        TimeoutError(),
    ],
    ids=repr,
)
def test_a_connection_lost_while_asking_leaves_the_outcome_open(error):
    assert type(meaning(error, asked=True)) is OutcomeUnknown


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(),
        TimeoutError(),
        server_says("53300", "FATAL"),
        server_says("57P03", "FATAL"),
        server_says("55P03"),
        asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"),
        asyncpg.TargetServerAttributeNotMatched("none of the hosts match"),
    ],
    ids=repr,
)
def test_a_server_that_cannot_be_reached_did_nothing(error):
    assert type(meaning(error, asked=False)) is StoreUnavailable


@pytest.mark.parametrize(
    "error",
    [
        server_says("28P01", "FATAL"),
        server_says("28000", "FATAL"),
        server_says("3D000", "FATAL"),
        ssl.SSLCertVerificationError(1, "certificate verify failed"),
        ConnectionError("rejected SSL upgrade"),
        socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
    ],
    ids=repr,
)
def test_a_server_that_will_not_have_us_did_nothing(error):
    assert type(meaning(error, asked=False)) is StoreRefused


def test_names_that_cannot_be_looked_up_for_a_while_are_an_outage():
    error = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    assert type(meaning(error, asked=False)) is StoreUnavailable


@pytest.mark.parametrize(
    "error", [server_says("42601"), asyncpg.ClientConfigurationError("no such sslmode")], ids=repr
)
def test_what_will_not_pass_by_itself_is_no_outage(error):
    assert type(meaning(error, asked=False)) is StoreError


def test_an_error_without_a_text_is_told_by_its_name():
    assert meaning(ConnectionResetError(), asked=True).problem == "ConnectionResetError"


def test_a_programming_error_is_not_disguised():
    with pytest.raises(ZeroDivisionError), translating("the store", asked=True):
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("user", "database"), [("postgres", "no_such_database"), ("no_such_user", "postgres")]
)
async def test_whoever_is_not_let_in_hears_that_the_store_is_away(server, user, database):
    store = PostgresBackend(server.url(database, user=user, password="s3cret")).connect(NAMESPACE)

    with pytest.raises(StoreUnavailable) as raised:
        await store.open()

    assert "does not exist" in raised.value.problem
    assert "s3cret" not in f"{raised.value} {raised.value!r} {raised.value.__cause__}"


async def test_a_server_that_is_full_is_away(database):
    await database.admin.execute("create role guest login")
    await database.admin.execute(f"alter database {database.name} connection limit 0")
    store = PostgresBackend(database.url("guest")).connect(NAMESPACE)
    try:
        with pytest.raises(StoreUnavailable) as raised:
            await store.open()
        assert isinstance(raised.value.__cause__, asyncpg.TooManyConnectionsError)
    finally:
        await database.admin.execute("drop role guest")


async def test_nobody_there_means_away():
    store = PostgresBackend("postgres://127.0.0.1:1/db").connect(NAMESPACE)

    with pytest.raises(StoreUnavailable):
        await store.open()
    with pytest.raises(StoreUnavailable):
        await store.active(())


@pytest.mark.parametrize("poison", ["nul \0 in it", "half of a \ud800 pair"])
async def test_a_poisoned_question_stops_its_call_and_no_later_one(store, due, poison):
    with pytest.raises(StoreError) as raised:
        await store.renew([Renewal("a", due, "t"), Renewal(poison, due, "t")])

    assert not isinstance(raised.value, (StoreUnavailable, OutcomeUnknown))
    assert (await store.renew([Renewal("a", due, "t")])).answers == (False,)


async def test_an_odd_detail_keeps_no_run_from_ending(store, due, claim):
    await claim(store, due, "t")

    ended = await store.finish([Finish("a", due, "t", RunState.FAILED, "nul \0, half \ud800")])

    assert ended.answers == (True,)
    (attempt,) = (await store.history(["a"], 10)).answers
    assert attempt.detail == "nul \ufffd, half ?"


async def test_a_claim_that_fails_in_its_middle_leaves_no_half_of_it(database, store, due, claim):
    """The run is written and its history is not: a slot that looked taken, by nobody, for ever."""
    await database.admin.execute(
        "create function refuse() returns trigger language plpgsql as"
        " $$ begin raise exception 'no room in the history'; end $$;"
        "create trigger refuse before insert on anarchon.attempt"
        " for each row execute function refuse()"
    )
    with pytest.raises(StoreError):
        await claim(store, due, "t")
    runs = await database.admin.fetchval("select count(*) from anarchon.run")
    await database.admin.execute("drop trigger refuse on anarchon.attempt")

    assert runs == 0
    answer = await claim(store, due, "other")
    assert (answer.outcome, answer.attempt) == (Outcome.WON, 1)
