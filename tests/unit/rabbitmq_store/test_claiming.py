"""What a claim leaves in RabbitMQ, and what it makes of queues that are not as it wants them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from kombu import Connection

from anarchon.backends.rabbitmq.names import queue_name
from anarchon.backends.rabbitmq.store import RabbitMQStore
from anarchon.clock import SystemClock
from anarchon.errors import NoHistory, StoreError, StoreUnavailable
from anarchon.store import ClaimAnswer, Outcome
from anarchon_contract.claims.harness import NAMESPACE
from anarchon_contract.claims.questions import SECOND, Asker, ended, scheduled
from anarchon_contract.leases.questions import HOUR, JOB, MINUTE
from tests.claims.harness_rabbitmq import url_of
from tests.servers.rabbitmq import RabbitServer


async def test_who_loses_is_told_who_has_it(ask, due):
    await ask.claim(due, "a", instance="web-7")

    assert await ask.claim(due, "b") == ClaimAnswer(Outcome.DONE, holder="web-7")


async def test_who_loses_late_is_told_who_has_it(ask, due):
    await ask.claim(due, "a", instance="web-7")

    answer = await ask.claim(due, "b", within=SECOND)

    assert answer == ClaimAnswer(Outcome.DONE, holder="web-7")


async def test_who_loses_with_another_limit_is_told_who_has_it(ask, due):
    """The queue lives for another time than it would have been declared with."""
    await ask.claim(due, "a", instance="web-7", within=5 * MINUTE)

    answer = await ask.claim(due, "b", within=6 * MINUTE)

    assert answer == ClaimAnswer(Outcome.DONE, holder="web-7")


async def test_the_same_token_of_another_instance_has_won(ask, due):
    won = await ask.claim(due, "a", instance="web-7", within=5 * MINUTE)

    assert await ask.claim(due, "a", instance="web-8", within=6 * MINUTE) == won


async def test_a_queue_lives_for_as_long_as_a_claim_is_remembered(ask, due, server, harness):
    await ask.claim(due, within=2 * MINUTE)

    told = server.evaluate("[amqqueue:get_arguments(Q) || Q <- rabbit_amqqueue:list()]")
    assert harness.backend.remembers(2 * MINUTE) == timedelta(minutes=5)
    assert ", 300000}" in told


@pytest.mark.parametrize(
    ("ahead", "within", "heard"), [(0 * HOUR, SECOND, Outcome.LATE), (HOUR, HOUR, Outcome.NONE)]
)
async def test_a_claim_that_may_not_start_its_slot_makes_no_queue(
    ask, due, server, ahead, within, heard
):
    assert (await ask.claim(due + ahead, within=within)).outcome is heard

    assert server.evaluate("length(rabbit_amqqueue:list())") == "0"


async def test_each_claim_of_a_batch_is_judged_by_the_time_of_its_own(connect, due):
    """The clock is read right before each declaration: a batch may take longer than a limit."""
    times = iter([due, due + 2 * MINUTE])
    store = await connect(now=lambda: next(times, due + 3 * MINUTE))

    reply = await store.claim([scheduled(due, job=job, within=MINUTE) for job in ("one", "two")])

    assert [answer.outcome for answer in reply.answers] == [Outcome.WON, Outcome.LATE]
    assert reply.time == due + 3 * MINUTE


async def test_quorum_and_classic_do_not_share_a_slot_out_twice(ask, connect, due, server):
    """G1, while a deploy changes the type of the queues."""
    other = Asker(await connect(url_of(server, queue_type="quorum")))
    await ask.claim(due, "a", instance="web-7")

    assert await other.claim(due, "b") == ClaimAnswer(Outcome.DONE, holder="web-7")


async def test_a_queue_of_that_name_that_somebody_else_made_is_not_ours(ask, due, server):
    with Connection(server.url()) as broker:
        channel: Any = broker.channel()
        channel.queue_declare(queue_name("/", NAMESPACE, JOB, due), durable=True, auto_delete=False)

        assert await ask.claim(due, "a") == ClaimAnswer(Outcome.DONE)
        assert await ask.claim(due, "a", within=SECOND) == ClaimAnswer(Outcome.DONE)


async def test_a_refusal_closes_nothing_for_good(ask, due, server):
    """A connection has 2047 channels at most, and a refusal closes one."""
    await ask.claim(due, "a")
    for count in range(30):
        assert (await ask.claim(due, f"b{count}")).outcome is Outcome.DONE

    assert server.evaluate("length(rabbit_channel:list())") == "1"
    assert server.evaluate("length(rabbit_networking:connections())") == "1"


@pytest.mark.soak
async def test_more_refusals_than_a_connection_has_channels_do_no_harm(ask, due):
    await ask.claim(due, "a")

    for count in range(2100):
        assert (await ask.claim(due, f"b{count}")).outcome is Outcome.DONE


@contextmanager
def at_most(queues: int, server: RabbitServer) -> Iterator[None]:
    """Let the virtual host have no more queues than that."""
    limit = 'rabbit_vhost_limit:{0}(<<"/">>, {1}<<"test">>)'
    server.evaluate(limit.format("set", f'[{{<<"max-queues">>, {queues}}}], '))
    try:
        yield
    finally:
        server.evaluate(limit.format("clear", ""))


async def test_a_host_that_may_have_no_more_queues_wins_nothing(ask, due, server):
    """It is told as what it is, and nobody takes it for a lost claim."""
    with at_most(0, server), pytest.raises(StoreUnavailable) as raised:
        await ask.claim(due)

    assert "limit" in raised.value.problem
    assert (await ask.claim(due)).outcome is Outcome.WON


async def test_a_queue_that_is_refused_keeps_no_other_of_its_batch_waiting(ask, due, server):
    """The call is parted by whoever asks, until what is refused stands alone."""
    jobs = ("one", "two", "three")
    with at_most(2, server):
        with pytest.raises(StoreError) as raised:
            await ask.store.claim([scheduled(due, job=job) for job in jobs])

        heard = [(await ask.claim(due, job=job)).outcome for job in jobs[:2]]
        with pytest.raises(StoreUnavailable):
            await ask.claim(due, job="three")

    assert not isinstance(raised.value, StoreUnavailable), "it would be asked again as a whole"
    assert heard == [Outcome.WON] * 2


async def test_a_memory_alarm_of_the_server_keeps_nobody_from_a_slot(ask, due, server):
    """It blocks who publishes; a declaration is no message."""
    server.evaluate("vm_memory_monitor:set_vm_memory_high_watermark(0.00001)")
    try:
        assert "memory" in server.evaluate("rabbit_alarm:get_alarms()")
        async with SystemClock().timeout(20):
            heard = [(await ask.claim(due, token)).outcome for token in "ab"]
    finally:
        server.evaluate("vm_memory_monitor:set_vm_memory_high_watermark(0.4)")
    assert heard == [Outcome.WON, Outcome.DONE]


async def test_there_is_no_history_and_it_says_what_to_do(ask, due):
    with pytest.raises(NoHistory) as raised:
        await ask.history()

    assert "events" in raised.value.problem
    assert await ask.save(ended(due)) is False


@pytest.mark.soak
@pytest.mark.timeout(200)
async def test_a_claim_is_forgotten_only_after_it_was_remembered(connect, harness, due):
    now = SystemClock().monotonic
    # both stand at the slot, so that it is never late
    one, two = [Asker(await connect(now=lambda: due)) for _ in range(2)]
    remembered = harness.backend.remembers(timedelta(0)).total_seconds()
    before = now()
    await one.claim(due, "a", within=timedelta(0))

    while (await two.claim(due, "b", within=timedelta(0))).outcome is Outcome.DONE:
        assert now() - before < remembered + 60, "it is never forgotten"
        await SystemClock().sleep(0.5)

    assert now() - before >= remembered


def test_its_name_tells_the_store_and_the_namespace(harness):
    assert isinstance(harness.connect(), RabbitMQStore)
    assert repr(harness.connect()) == f"<RabbitMQStore {harness.backend.label}: {NAMESPACE}>"
