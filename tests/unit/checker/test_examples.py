"""One small history each: what is said of it, and why."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from anarchon.job import Job
from anarchon.testing import Body, Evidence, Fault, Kind, Life, Trouble, Verdict, check
from tests.unit.checker.legal import PATIENCE, at, fence_at, job
from tests.unit.checker.small import body, found

MINUTELY = job(60)


def life(name: str, start: float, end: float | None = None, *, killed: bool = False) -> Life:
    return Life(name, [MINUTELY], at(start), None if end is None else at(end), killed)


def judge(
    lives: Sequence[Life],
    bodies: Sequence[Body],
    troubles: Sequence[Trouble] = (),
    *,
    until: float = 200,
    declared: Job = MINUTELY,
) -> Verdict:
    lives = [Life(one.instance, [declared], one.start, one.end, one.killed) for one in lives]
    return check(Evidence(lives, bodies, troubles, at(until)), patience=PATIENCE)


def test_a_healthy_history_holds_and_says_how_much_it_showed():
    verdict = judge(
        [life("a", 0), life("b", 0)],
        [body(60, "a", 60.2, 61), body(120, "b", 120.1, 125), body(180, "a", 180.4, 190)],
    )

    assert verdict.holds
    assert (verdict.demanded, verdict.skipped, verdict.takeovers) == (3, 0, 0)
    assert str(verdict) == "holds: 3 slots demanded, 0 skipped, 0 takeovers, 0 excused"


def test_a_finding_reads_as_one_line_that_names_slot_and_bodies():
    verdict = judge(
        [life("a", 0), life("b", 0)],
        [body(60, "a", 60.2, 61), body(60, "b", 60.4, 61.5), body(120, "a", 120, 121)],
        until=170,
    )

    assert found(verdict) == [(Kind.DOUBLED, at(60)), (Kind.OVERLAP, at(60))]
    assert str(verdict.findings[0]) == (
        "doubled sync@2026-03-01T00:01:00.000Z:"
        f" attempt 1 fence {fence_at(60.2)} on a started 2026-03-01T00:01:00.200Z"
        " ended 2026-03-01T00:01:01.000Z;"
        f" then attempt 1 fence {fence_at(60.4)} on b started 2026-03-01T00:01:00.400Z"
        " ended 2026-03-01T00:01:01.500Z"
    )


def test_who_stops_right_after_a_slot_leaves_it_to_who_started_right_after_it():
    """G8: nobody was able from before the slot to its bound, and it had to run all the same."""
    lives = [life("a", 0, 120.1), life("b", 120.05)]
    before = body(60, "a", 60.2, 61)

    ran = judge(lives, [before, body(120, "b", 120.3, 121)], until=170)
    missed = judge(lives, [before], until=170)

    assert ran.holds
    assert found(missed) == [(Kind.MISSED, at(120))]


def test_a_killed_runner_is_taken_over_within_lease_and_two_heartbeats():
    """G6: with a lease of 15 s and heartbeats of 5 s, jitter and patience 26.5 s after the kill."""
    lives = [life("a", 0, 63, killed=True), life("b", 0)]
    dead = body(60, "a", 60.2, None)

    def then(*others: Body) -> Verdict:
        return judge(lives, [dead, *others], until=119)

    assert then(body(60, "b", 80, 81, attempt=2)).holds
    assert found(then(body(60, "b", 92, 93, attempt=2))) == [(Kind.LATE, at(60))]
    assert found(then()) == [(Kind.MISSED, at(60))]


def test_a_takeover_before_the_lease_can_have_lapsed_is_a_doubled_run():
    """G1."""
    lives = [life("a", 0, 63, killed=True), life("b", 0)]

    verdict = judge(lives, [body(60, "a", 60.2, None), body(60, "b", 65, 66, attempt=2)], until=119)

    assert found(verdict) == [(Kind.DOUBLED, at(60))]


def test_who_is_stopped_hands_over_within_two_heartbeats():
    """G7."""
    lives = [life("a", 0, 70), life("b", 0)]
    stopped = body(60, "a", 60.2, 70.5, failed=True)

    def then(*others: Body) -> Verdict:
        return judge(lives, [stopped, *others], until=119)

    assert then(body(60, "b", 79, 80, attempt=2)).holds
    assert found(then(body(60, "b", 83, 84, attempt=2))) == [(Kind.LATE, at(60))]
    assert found(then()) == [(Kind.MISSED, at(60))]


def test_what_had_failed_before_its_instance_was_stopped_is_not_handed_over():
    """G2: a failed run has ended, too."""
    bodies = [body(60, "a", 60.2, 61, failed=True), body(60, "b", 75, 76, attempt=2)]

    verdict = judge([life("a", 0, 61.5), life("b", 0)], bodies, until=119)

    assert found(verdict) == [(Kind.DOUBLED, at(60))]


def test_a_claim_that_died_before_its_work_leaves_attempt_two_as_the_first_body():
    lives = [life("a", 0, 60.3, killed=True), life("b", 0)]

    verdict = judge(lives, [body(60, "b", 78, 79, attempt=2)], until=119)

    assert verdict.holds
    assert found(judge(lives, [], until=119)) == [(Kind.MISSED, at(60))]


def test_a_zombie_beside_its_successor_is_excused_by_the_freeze_and_listed():
    """G1 is about the right, not about bodies."""
    frozen = Trouble(Fault.FROZEN, at(62), at(90), "a")
    bodies = [body(60, "a", 60.2, 91, failed=True), body(60, "b", 80, 85, attempt=2)]
    lives = [life("a", 0), life("b", 0)]

    with_freeze = judge(lives, bodies, [frozen], until=119)
    without = judge(lives, bodies, until=119)

    assert with_freeze.holds
    assert [one.kind for one in with_freeze.excused] == [Kind.OVERLAP]
    assert "a frozen 2026-03-01T00:01:02.000Z" in str(with_freeze.excused[0])
    assert found(without) == [(Kind.DOUBLED, at(60)), (Kind.OVERLAP, at(60))]


def test_work_that_begins_when_its_process_thaws_is_excused_by_the_freeze_and_listed():
    """Right after it was seen that it may begin: nothing is one step with the start of a body."""
    frozen = Trouble(Fault.FROZEN, at(60.3), at(82), "a")
    late = body(60, "a", 82.1, 82.2, failed=True, fence=60.2)
    bodies = [body(60, "b", 80, 85, attempt=2), late]
    lives = [life("a", 0), life("b", 0)]

    with_freeze = judge(lives, bodies, [frozen], until=119)
    without = judge(lives, bodies, until=119)

    assert with_freeze.holds
    assert {one.kind for one in with_freeze.excused} >= {Kind.DOUBLED, Kind.OVERLAP}
    assert Kind.DOUBLED in {kind for kind, _ in found(without)}


def test_a_freeze_too_short_to_cost_a_lease_explains_nothing():
    frozen = Trouble(Fault.FROZEN, at(62), at(63), "a")
    bodies = [body(60, "a", 60.2, 91), body(60, "b", 80, 85, attempt=2)]

    verdict = judge([life("a", 0), life("b", 0)], bodies, [frozen], until=119)

    assert found(verdict) == [(Kind.DOUBLED, at(60)), (Kind.OVERLAP, at(60))]


def test_after_an_outage_the_newest_slot_runs_and_none_that_is_older():
    """G8."""
    away = Trouble(Fault.AWAY, at(100), at(250))
    first = body(60, "a", 60.1, 61)
    lives = [life("a", 0)]

    newest = judge(lives, [first, body(240, "a", 252, 253)], [away], until=299)
    nothing = judge(lives, [first], [away], until=299)
    older = judge(
        lives, [first, body(180, "a", 252, 253), body(240, "a", 254, 255)], [away], until=299
    )

    assert newest.holds
    assert [(one.kind, one.slot) for one in newest.excused] == [
        (Kind.MISSED, at(120)),
        (Kind.MISSED, at(180)),
    ]
    assert found(nothing) == [(Kind.MISSED, at(240))]
    assert found(older) == [(Kind.EXTRA, at(180))]


def test_after_downtime_nothing_is_caught_up_that_is_older_than_catch_up():
    """G8."""
    brief = job(600, catch_up="2m")
    lives = [life("a", 0, 500, killed=True), life("b", 700), life("c", 1250)]
    in_time, too_old = body(600, "b", 700.2, 701), body(600, "b", 725, 726)

    def then(*bodies: Body) -> Verdict:
        second = body(1200, "b", 1200.1, 1201)
        return judge(lives, [*bodies, second], until=1300, declared=brief)

    assert then(in_time).holds
    assert found(then()) == [(Kind.MISSED, at(600))]
    assert (Kind.EXTRA, at(600)) in found(then(too_old))


def test_a_slot_from_before_the_job_was_first_seen_is_extra():
    """G8: a job has nothing to catch up from before the store first saw it."""
    verdict = judge(
        [life("a", 70)], [body(60, "a", 70.2, 71), body(120, "a", 120.2, 121)], until=170
    )

    assert found(verdict) == [(Kind.EXTRA, at(60))]


def test_a_slot_is_skipped_while_another_run_is_busy_and_no_longer():
    """G9."""
    lives = [life("a", 0)]
    long, next_up = body(60, "a", 60.2, 125), body(180, "a", 180.1, 181)

    assert judge(lives, [long, next_up]).skipped == 1
    assert judge(lives, [long, next_up]).holds
    ended_before = [body(60, "a", 60.2, 110), next_up]
    assert found(judge(lives, ended_before)) == [(Kind.MISSED, at(120))]
    allowed = judge(lives, [long, next_up], declared=job(60, overlap="allow"))
    assert found(allowed) == [(Kind.MISSED, at(120))]


def test_a_lease_left_behind_keeps_the_next_slot_only_until_it_lapses():
    quick = job(20)
    lives = [life("a", 0, 39, killed=True), life("b", 0)]
    dead = body(20, "a", 20.2, None)
    rest = [body(80, "b", 80.2, 81), body(100, "b", 100.2, 101)]

    def then(*bodies: Body) -> Verdict:
        return judge(lives, [dead, *bodies, *rest], until=119, declared=quick)

    assert then(body(60, "b", 60.2, 61)).holds
    # at 40 the dead one's lease was live, at 60 it had lapsed for certain
    assert found(then()) == [(Kind.MISSED, at(60))]


def test_what_the_store_forgot_may_run_twice_once_but_never_with_a_lower_fence():
    """G5 holds also for a store that lost its data."""
    forgot = Trouble(Fault.FORGOT, at(60), at(61))
    lives = [life("a", 0), life("b", 0)]
    once = [body(60, "a", 60.2, 60.6), body(60, "b", 62, 63)]

    assert judge(lives, once, [forgot], until=119).holds
    thrice = [*once, body(60, "a", 64, 65)]
    assert found(judge(lives, thrice, [forgot], until=119)) == [(Kind.DOUBLED, at(60))]
    lower = [body(60, "a", 60.2, 60.6), body(60, "b", 62, 63, fence=10)]
    assert found(judge(lives, lower, [forgot], until=119)) == [(Kind.FENCE, at(60))]


def test_a_second_message_needs_a_sender_that_was_harmed_right_then():
    mail = job(60, publishes=True, overlap="allow")
    sent = [body(60, "a", 60.2, 60.2), body(60, "b", 80, 80, attempt=2)]

    def judged(ended: float) -> Verdict:
        lives = [life("a", 0, ended, killed=True), life("b", 0)]
        return judge(lives, sent, until=119, declared=mail)

    right_then, much_later = judged(60.3), judged(66)

    assert right_then.holds
    assert [one.kind for one in right_then.excused] == [Kind.DOUBLED]
    assert found(much_later) == [(Kind.DOUBLED, at(60))]


def test_a_wrong_clock_of_an_instance_excuses_nothing():
    wrong = Trouble(Fault.CLOCK, at(0), at(200), "a")

    verdict = judge([life("a", 0)], [body(60, "a", 60.2, 61)], [wrong], until=170)

    assert found(verdict) == [(Kind.MISSED, at(120))]


def test_a_wrong_clock_of_the_store_lets_a_slot_start_before_its_moment():
    wrong = Trouble(Fault.CLOCK, at(100), at(130))
    bodies = [body(60, "a", 60.2, 61), body(120, "a", 105, 106)]
    lives = [life("a", 0)]

    assert judge(lives, bodies, [wrong], until=170).holds
    assert found(judge(lives, bodies, until=170)) == [(Kind.PHANTOM, at(120))]


def test_two_jobs_know_nothing_of_each_other():
    other = Body("other", at(60), 1, fence_at(60.2), "a", at(60.2), at(65))

    verdict = judge([life("a", 0)], [body(60, "a", 60.2, 61), other], until=119)

    assert [(one.kind, one.job) for one in verdict.findings] == [(Kind.PHANTOM, "other")]


def test_a_run_may_be_taken_over_by_an_edition_without_its_slot():
    newer = job(timedelta(seconds=90).total_seconds())
    lives = [
        Life("a", [MINUTELY], at(0), at(63), killed=True),
        Life("b", [newer], at(0)),
    ]
    bodies = [
        body(60, "a", 60.2, None),
        body(60, "b", 80, 81, attempt=2),
        body(90, "b", 90.2, 91),
    ]

    assert check(Evidence(lives, bodies, [], at(119)), patience=PATIENCE).holds
    first = [body(60, "b", 60.2, 61), body(90, "b", 90.2, 91)]
    verdict = check(Evidence(lives, first, [], at(119)), patience=PATIENCE)
    assert (Kind.PHANTOM, at(60)) in found(verdict)
