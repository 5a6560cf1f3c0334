"""What a cron expression may say, and what each refusal names."""

from datetime import timedelta

import pytest

from anarchon.errors import InvalidSchedule
from anarchon.schedules import Cron
from tests.unit.schedules.clock_walk import at, forwards


def refusal(expression, **options):
    with pytest.raises(InvalidSchedule) as refused:
        Cron(expression, **options)
    return refused.value


@pytest.mark.parametrize(
    ("expression", "field", "allowed"),
    [
        ("60 * * * *", "minute", "0-59"),
        ("* 24 * * *", "hour", "0-23"),
        ("* * 32 * *", "day of month", "1-31"),
        ("* * 0 * *", "day of month", "1-31"),
        ("* * * 13 *", "month", "1-12 or JAN-DEC"),
        ("* * * 0 *", "month", "1-12 or JAN-DEC"),
        ("* * * * 8", "weekday", "0-7 or SUN-SAT"),
        ("* * * * * 60", "second", "0-59"),
        ("JAN * * * *", "minute", "0-59"),
        ("* MON * * *", "hour", "0-23"),
        ("* * * MON *", "month", "JAN-DEC"),
        ("* * * * JAN", "weekday", "SUN-SAT"),
        ("* * * * * MON", "second", "seconds come last"),
        ("*/0 * * * *", "minute", "0-59"),
        ("*/61 * * * *", "minute", "0-59"),
        ("1, * * * *", "minute", "0-59"),
        (",1 * * * *", "minute", "0-59"),
        ("1- * * * *", "minute", "0-59"),
        ("5/15 * * * *", "minute", "0-59"),
        ("*,5 * * * *", "minute", "0-59"),
        ("0x1 * * * *", "minute", "0-59"),
        ("١ * * * *", "minute", "0-59"),
        ("0 0 * * ſat", "weekday", "SUN-SAT"),
        ("0 0 * * monday", "weekday", "SUN-SAT"),
        ("L * * * *", "minute", "0-59"),
        ("0 0 32W * *", "day of month", "1-31"),
        ("0 0 0W * *", "day of month", "1-31"),
        ("0 0 W15 * *", "day of month", "15W"),
        ("0 0 LW * *", "day of month", "15W"),
        ("0 0 L-3 * *", "day of month", "15W"),
        ("0 0 * * L", "weekday", "L5"),
        ("0 0 * * L8", "weekday", "L5"),
        ("0 0 * * 5#6", "weekday", "5#2"),
        ("0 0 * * 5#0", "weekday", "5#2"),
        ("0 0 * * 1#1,*", "weekday", "5#2"),
    ],
)
def test_a_wrong_field_is_named_with_what_it_may_hold(expression, field, allowed):
    wrong = refusal(expression)

    assert wrong.option == "cron"
    assert wrong.problem.startswith(f"{field} field:")
    assert allowed in wrong.fix


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("5/15 * * * *", "write 5-59/15"),
        ("0 0 ? * 1", "write '*'"),
        ("H * * * *", "from instance to instance"),
        ("H(0-10) * * * *", "from instance to instance"),
        ("R * * * *", "from instance to instance"),
        ("0 0 * * FRI#2", "write 5#2"),
        ("0 0 * * 5L", "L5"),
    ],
)
def test_the_spelling_of_another_program_is_refused_with_ours(expression, hint):
    assert hint in refusal(expression).problem


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("", "0 fields"),
        ("* * * *", "4 fields"),
        ("0 0 1 1 * 0 2026", "7 fields"),
        ("*\u00a0* * * *", "4 fields"),
        ("9" * 5000 + " * * * *", "longer than 256"),
    ],
)
def test_an_expression_of_another_shape_is_refused_as_a_whole(expression, problem):
    wrong = refusal(expression)

    assert problem in wrong.problem
    assert len(str(wrong)) < 300


@pytest.mark.parametrize("expression", ["@every 5m", "@reboot", "@", "@dailyish"])
def test_an_unknown_alias_is_refused_with_those_there_are(expression):
    assert "@daily" in refusal(expression).fix


@pytest.mark.parametrize("expression", [None, 5, ["*"], b"* * * * *"])
def test_what_is_not_text_is_refused(expression):
    assert refusal(expression).option == "cron"


@pytest.mark.parametrize(
    "expression",
    ["0 0 31 4 *", "0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "* * 31 2 * *", "0 0 30-31 FEB *"],
)
def test_an_expression_that_never_happens_is_refused(expression):
    assert "never happens" in refusal(expression).problem


def test_both_day_fields_that_never_meet_are_refused():
    assert "never happens" in refusal("0 0 30 2 1", day="and").problem


def test_a_rare_day_is_no_impossible_one():
    cron = Cron("0 0 29 2 1", day="and")

    assert cron.next_after(at("2026-01-01T00:00:00Z")) == at("2044-02-29T00:00:00Z")
    assert cron.latest_at(at("2026-01-01T00:00:00Z")) == at("2016-02-29T00:00:00Z")


@pytest.mark.parametrize(
    "expression",
    ["0 0 */2 * MON", "0 0 */3 * 0-6", "0 0 1-31/3 * 0-6", "0 0 1-31 * 1", "0 0 1 * */2"],
)
def test_day_fields_that_cron_programs_combine_differently_need_a_word(expression):
    wrong = refusal(expression)

    assert wrong.option == "day"
    assert 'day="and"' in wrong.fix
    assert Cron(expression, day="or").canonical()
    assert Cron(expression, day="and").canonical()


@pytest.mark.parametrize("day", ["AND", "xor", 1, ""])
def test_an_unknown_word_for_the_day_fields_is_refused(day):
    assert refusal("0 0 1 * 1", day=day).option == "day"


def days_of_2026(expression, **options):
    start = at("2026-01-01T00:00:00Z")
    return [
        f"{slot:%m-%d}"
        for slot in forwards(Cron(expression, **options), start, start + timedelta(days=60))
    ]


def test_two_restricted_day_fields_match_either():
    assert days_of_2026("0 0 13 * 5")[:4] == ["01-02", "01-09", "01-13", "01-16"]


def test_two_restricted_day_fields_match_both_when_asked_to():
    assert days_of_2026("0 0 13 * 5", day="and") == ["02-13"]


def test_a_free_day_field_leaves_the_other_alone_whatever_is_asked():
    for day in (None, "and", "or"):
        assert days_of_2026("0 0 13 * *", day=day) == ["01-13", "02-13"]
        assert days_of_2026("0 0 */1 * 0", day=day)[:2] == ["01-04", "01-11"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("0 0 * NOV-FEB *", "0 0 * 11,12,1,2 *"),
        ("0 0 25-5 * *", "0 0 1-5,25-31 * *"),
        ("0 22-3/2 * * *", "0 22,0,2 * * *"),
        ("0 0 * * FRI-SUN", "0 0 * * 5,6,0"),
        ("0 0 * * fri-sun", "0 0 * * 5-7"),
        ("0 0 * * 7-2", "0 0 * * 0-2"),
        ("0 0 * * 5-1/2", "0 0 * * 5,0"),
        ("0 0 * * 1-7/2", "0 0 * * 0,1,3,5"),
        ("0 0 * * 7", "0 0 * * SUN"),
        ("0 0 1 1-1 *", "0 0 1 JAN *"),
        ("5-5 * * * *", "5 * * * *"),
        ("  0\t0 * *  * ", "0 0 * * *"),
        ("0 * * * * 0", "0 * * * *"),
        ("@YEARLY", "0 0 1 1 *"),
        ("@midnight", "@daily"),
    ],
)
def test_two_spellings_of_one_meaning_are_one_schedule(one, other):
    assert Cron(one) == Cron(other)
    assert hash(Cron(one)) == hash(Cron(other))
    assert Cron(one).canonical() == Cron(other).canonical()


def test_the_sixth_field_is_seconds():
    cron = Cron("* * * * * */20")

    assert cron.next_after(at("2026-01-01T00:00:30Z")) == at("2026-01-01T00:00:40Z")
    assert cron.latest_at(at("2026-01-01T00:00:59.5Z")) == at("2026-01-01T00:00:40Z")
