"""What holds for every schedule at every moment: both views are of one set of instants."""

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from anarchon.schedules import At, Cron, CronSets, Every
from tests.unit.schedules.clock_walk import MODEST
from tests.unit.schedules.test_clock_changes import ZONES

TICK = timedelta(microseconds=1)

expressions = st.sampled_from(
    [
        "* * * * *",
        "*/7 * * * *",
        "0 * * * *",
        "30 1 * * *",
        "30 2 * * *",
        "*/20 0-4 * * *",
        "5 0-22 * * *",
        "0 0 1 * *",
        "0 0 13 * 5",
        "0 0 29 2 *",
        "59 23 31 12 *",
        "0 0 L * *",
        "30 2 15W * *",
        "30 1 * * L0",
        "15 2 * 3,11 0#2",
        "* * * * * */20",
        "30 2 * * * 15,45",
        "* * 29 2 * *",
    ]
)
moments = st.datetimes(datetime(1971, 1, 1), datetime(2037, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
instants = st.one_of(
    moments,
    # Clocks change within the first hours of a Sunday: look there more often.
    st.builds(
        lambda year, week, seconds: (
            datetime(year, 1, 1, tzinfo=UTC)
            + timedelta(
                days=7 * week - datetime(year, 1, 1, tzinfo=UTC).weekday() - 1, seconds=seconds
            )
        ),
        st.integers(1972, 2036),
        st.integers(1, 52),
        st.integers(-43_200, 86_400),
    ),
)
milliseconds = st.integers(1, 10**10).map(lambda count: timedelta(milliseconds=count))
schedules = st.one_of(
    st.builds(Cron, expressions, st.sampled_from(ZONES)),
    st.builds(Cron, expressions, st.sampled_from(ZONES)),
    st.builds(
        lambda minutes, hours, zone: CronSets(
            minutes, hours, range(1, 32), range(1, 13), range(7), zone
        ),
        st.sets(st.integers(0, 59), min_size=1),
        st.sets(st.integers(0, 23), min_size=1),
        st.sampled_from(ZONES),
    ),
    st.builds(Every, milliseconds),
    st.builds(
        lambda moment: At(moment.replace(microsecond=moment.microsecond // 1000 * 1000)), moments
    ),
)


@MODEST
@given(schedule=schedules, moment=instants)
def test_a_moment_lies_between_the_newest_slot_and_the_next(schedule, moment):
    newest, following = schedule.latest_at(moment), schedule.next_after(moment)

    assert newest is None or newest <= moment
    assert following is None or following > moment
    for slot in filter(None, (newest, following)):
        assert slot.tzinfo is UTC
        assert slot.microsecond % 1000 == 0


@MODEST
@given(schedule=schedules, moment=instants)
def test_next_and_newest_are_views_of_one_set(schedule, moment):
    newest, following = schedule.latest_at(moment), schedule.next_after(moment)

    if newest is not None:
        assert schedule.latest_at(newest) == newest
        assert schedule.next_after(newest) == following
        assert schedule.next_after(newest - TICK) == newest
    if following is not None:
        assert schedule.latest_at(following) == following
        assert schedule.latest_at(following - TICK) == newest
        assert schedule.next_after(following - TICK) == following


@MODEST
@given(schedule=schedules, moment=instants, later=st.integers(0, 10**12))
def test_a_later_moment_never_has_an_earlier_slot(schedule, moment, later):
    first, second = moment, moment + timedelta(microseconds=later)

    for ask in (schedule.next_after, schedule.latest_at):
        earlier, after = ask(first), ask(second)
        if earlier is not None and after is not None:
            assert earlier <= after


@MODEST
@given(schedule=schedules, moment=instants, zone=st.sampled_from(ZONES), hours=st.integers(-14, 14))
def test_the_zone_of_the_question_does_not_matter(schedule, moment, zone, hours):
    answers = (schedule.next_after(moment), schedule.latest_at(moment))

    for other in (ZoneInfo(zone), timezone(timedelta(hours=hours))):
        asked = moment.astimezone(other)
        assert (schedule.next_after(asked), schedule.latest_at(asked)) == answers
