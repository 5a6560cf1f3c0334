"""Random crons against croniter and cronsim, where these are right: without clock changes."""

from datetime import UTC, datetime, timedelta

from croniter import croniter
from cronsim import CronSim
from hypothesis import assume, given
from hypothesis import strategies as st

from anarchon.errors import InvalidSchedule
from anarchon.schedules import Cron
from tests.unit.schedules.clock_walk import MODEST


@st.composite
def items(draw, low, high):
    kind = draw(st.sampled_from(["value", "range", "step"]))
    first = draw(st.integers(low, high - 1))
    # Equal ends are an ordinary range here, and the whole field to croniter.
    last = draw(st.integers(first + 1, high))
    if kind == "value":
        return str(first)
    if kind == "range":
        return f"{first}-{last}"
    return f"{first}-{last}/{draw(st.integers(1, high - low))}"


def field(low, high, starred=True):
    lists = st.lists(items(low, high), min_size=1, max_size=3).map(",".join)
    if not starred:
        return lists
    steps = st.integers(2, high - low).map(lambda step: f"*/{step}")
    return st.one_of(st.just("*"), steps, lists)


def either_free(days, weekdays):
    return st.one_of(
        st.tuples(days, st.just("*")), st.tuples(st.just("*"), weekdays), st.tuples(days, weekdays)
    )


plain = st.builds(
    lambda minute, hour, month, days: f"{minute} {hour} {days[0]} {month} {days[1]}",
    field(0, 59),
    field(0, 23),
    field(1, 12),
    either_free(field(1, 31, starred=False), field(0, 6, starred=False)),
)
naive_moments = st.datetimes(datetime(1971, 1, 1), datetime(2037, 1, 1))  # noqa: DTZ001


def read(expression):
    try:
        return Cron(expression)
    except InvalidSchedule:
        assume(False)  # impossible dates, and full sets beside a restricted day field
        raise


def microsecond_before(moment):
    return moment - timedelta(microseconds=1)


@MODEST
@given(expression=plain, moment=naive_moments)
def test_in_utc_the_slots_are_those_of_cronsim(expression, moment):
    cron, moment = read(expression), moment.replace(tzinfo=UTC)

    theirs = CronSim(expression, moment)
    slot = moment
    for _ in range(3):
        slot = cron.next_after(slot)
        assert slot == next(theirs)

    # Asked backwards, cronsim leaves out the moment itself, and knows whole minutes only.
    from_minute = moment.replace(second=0, microsecond=0)
    theirs = CronSim(expression, from_minute, reverse=True)
    slot = from_minute
    for _ in range(3):
        slot = cron.latest_at(microsecond_before(slot))
        assert slot == next(theirs)


@MODEST
@given(expression=plain, moment=naive_moments)
def test_in_utc_the_slots_are_those_of_naive_croniter(expression, moment):
    cron = read(expression)
    moment = moment.replace(microsecond=0)
    theirs = croniter(expression, moment, ret_type=datetime)

    slot = cron.next_after(moment.replace(tzinfo=UTC))
    assert slot == theirs.get_next(start_time=moment).replace(tzinfo=UTC)

    slot = cron.latest_at(microsecond_before(moment.replace(tzinfo=UTC)))
    assert slot == theirs.get_prev(start_time=moment).replace(tzinfo=UTC)


extended_days = st.one_of(
    st.tuples(st.one_of(st.just("L"), st.integers(1, 31).map(lambda day: f"{day}W")), st.just("*")),
    st.tuples(
        st.just("*"),
        st.one_of(
            st.builds("{}#{}".format, st.integers(0, 6), st.integers(1, 5)),
            st.integers(0, 6).map("L{}".format),
        ),
    ),
)
extended = st.builds(
    lambda minute, hour, month, days, second: (
        f"{minute} {hour} {days[0]} {month} {days[1]} {second}"
    ),
    field(0, 59),
    field(0, 23),
    field(1, 12),
    extended_days,
    field(0, 59),
)


@MODEST
@given(expression=extended, moment=naive_moments)
def test_the_extended_dialect_is_that_of_naive_croniter(expression, moment):
    cron = read(expression)
    moment = moment.replace(microsecond=0)
    theirs = croniter(expression, moment, ret_type=datetime)

    slot = moment.replace(tzinfo=UTC)
    for _ in range(3):
        slot = cron.next_after(slot)
        assert slot == theirs.get_next().replace(tzinfo=UTC)

    slot = cron.latest_at(microsecond_before(moment.replace(tzinfo=UTC)))
    assert slot == theirs.get_prev(start_time=moment).replace(tzinfo=UTC)


@MODEST
@given(expression=plain, moment=naive_moments, hours=st.integers(-11, 12))
def test_in_a_zone_without_changes_the_slots_are_those_of_utc_moved(expression, moment, hours):
    in_utc = read(expression)
    # The sign of these names is the other way round.
    cron = Cron(expression, f"Etc/GMT{-hours:+d}")
    offset = timedelta(hours=hours)
    moment = moment.replace(tzinfo=UTC)

    assert cron.next_after(moment) == in_utc.next_after(moment + offset) - offset
    assert cron.latest_at(moment) == in_utc.latest_at(moment + offset) - offset
