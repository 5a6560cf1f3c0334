"""Slots and refusals gathered from bug reports, other programs and measurements."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery.schedules import crontab

from anarchon.errors import InvalidSchedule
from anarchon.schedules import At, Cron, CronSets, Every

DATA = Path(__file__).parents[2] / "data" / "cron_cases.json"
CASES = json.loads(DATA.read_text(encoding="utf-8"))

# The file asks for five portable fields; the extended dialect has an `L`.
EXTENDED = {"bad-31"}
# Slots are whole milliseconds: a third of a second is refused.
FINER_THAN_MILLISECONDS = {"every-14"}


def of_kind(*kinds, without=frozenset()):
    cases = [case for case in CASES if case["kind"] in kinds and case["id"] not in without]
    return [pytest.param(case, id=case["id"]) for case in cases]


def moment(text):
    return datetime.fromisoformat(text)


def schedule_of(case):
    expression = case["expr"]
    match case["kind"]:
        case "cron":
            return Cron(expression, case["tz"])
        case "every":
            interval = timedelta(microseconds=expression["microseconds"])
            return Every(interval, anchor=moment(expression["anchor"]))
        case "at":
            return At(moment(expression).replace(tzinfo=ZoneInfo(case["tz"])))
        case "celery_crontab":
            sets: Any = crontab(**expression)
            return CronSets(
                sets.minute,
                sets.hour,
                sets.day_of_month,
                sets.month_of_year,
                sets.day_of_week,
                ZoneInfo(case["tz"]),
            )


@pytest.mark.parametrize(
    "case", of_kind("cron", "every", "at", "celery_crontab", without=FINER_THAN_MILLISECONDS)
)
def test_the_slots_of_a_case_are_those_expected(case):
    schedule = schedule_of(case)

    slot = moment(case["start"])
    for expected in case["expected_next"] or []:
        slot = schedule.next_after(slot)
        assert slot == (expected and moment(expected))

    slot = moment(case["start"]) + timedelta(microseconds=1)
    for expected in case["expected_prev"] or []:
        slot = schedule.latest_at(slot - timedelta(microseconds=1))
        assert slot == (expected and moment(expected))


@pytest.mark.parametrize("case", of_kind("cron_invalid", without=EXTENDED))
def test_an_invalid_expression_of_a_case_is_refused(case):
    with pytest.raises(InvalidSchedule) as refused:
        Cron(case["expr"], case["tz"])

    assert refused.value.option == "cron"


def test_no_case_is_left_out():
    kinds = {case["kind"] for case in CASES}

    assert kinds == {"cron", "cron_invalid", "every", "at", "celery_crontab"}
    assert len(CASES) > 480
    assert {case["id"] for case in CASES} >= EXTENDED | FINER_THAN_MILLISECONDS
