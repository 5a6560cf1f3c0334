"""Each method answers in order, each member on its own terms."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from anarchon.run import Overlap, RunState
from anarchon.store import Claim, Finish, Mode, Outcome, Registration, Release, Renewal, Unfinished
from anarchon_contract.leases.questions import DAY, JOB, MINUTE, claim_of


async def test_no_questions_get_no_answers(store):
    assert (await store.claim(())).answers == ()
    assert (await store.renew(())).answers == ()
    assert (await store.finish(())).answers == ()
    assert (await store.release(())).answers == ()
    assert (await store.prune(())).answers == ()


async def test_a_batch_of_claims_hears_all_outcomes_at_once(ask, store, meet, harness, due, now):
    jobs = [outcome.value for outcome in Outcome]
    await meet(*jobs, "taken over")
    await ask.claim(due, "x", job="running")
    await ask.claim(due - MINUTE, "x", job="overlap")
    await ask.claim(due, "x", job="done")
    await ask.finish(due, "x", job="done")
    await ask.claim(due, "x", job="taken over", lease=timedelta(seconds=20))
    await harness.lapse("taken over", due)

    reply = await store.claim(
        [
            claim_of(due, "y", job="taken over", mode=Mode.TAKEOVER),
            claim_of(due, "y", job="running"),
            claim_of(now + DAY, "y", job="none"),
            claim_of(due, "y", job="late", within=timedelta(seconds=1)),
            claim_of(due, "y", job="won", lease=timedelta(seconds=9), instance="web-9"),
            claim_of(due, "y", job="overlap"),
            claim_of(due, "y", job="done"),
        ]
    )

    assert [answer.outcome for answer in reply.answers] == [
        Outcome.WON,
        Outcome.RUNNING,
        Outcome.NONE,
        Outcome.LATE,
        Outcome.WON,
        Outcome.OVERLAP,
        Outcome.DONE,
    ]
    assert [answer.attempt for answer in reply.answers] == [2, 1, 0, 0, 1, 0, 0]
    assert reply.answers[0].lease == timedelta(seconds=20)
    assert (reply.answers[4].lease, reply.answers[4].holder) == (timedelta(seconds=9), "web-9")
    assert reply.answers[5].blocker == due - MINUTE


async def test_each_run_of_a_batch_keeps_its_own_terms(ask, store, meet, harness, due):
    terms: dict[str, dict[str, Any]] = {
        "a": {"lease": timedelta(seconds=3), "max_attempts": 1},
        "b": {"lease": timedelta(minutes=3), "max_attempts": 2, "begins_as": RunState.CLAIMED},
        "c": {"lease": timedelta(seconds=7), "max_attempts": 3, "overlap": Overlap.ALLOW},
    }
    await meet(*terms)
    await store.claim(
        [claim_of(due, f"t-{job}", job=job, **options) for job, options in terms.items()]
    )

    for job in terms:
        await harness.lapse(job, due)
    looks = [claim_of(due, "u", job=job, mode=Mode.TAKEOVER) for job in terms]
    answers = (await store.claim(looks)).answers

    assert [answer.outcome for answer in answers] == [Outcome.DONE, Outcome.WON, Outcome.WON]
    assert [answer.lease for answer in answers[1:]] == [
        timedelta(minutes=3),
        timedelta(seconds=7),
    ]
    assert (await ask.history("b"))[0].state is RunState.CLAIMED


async def test_renewals_finishes_and_releases_are_each_judged_alone(ask, store, meet, due):
    jobs = ["a", "b", "c", "d"]
    await meet(*jobs)
    await store.claim([claim_of(due, "t", job=job) for job in jobs])

    renewed = await store.renew(
        [Renewal("d", due, "t"), Renewal("a", due, "other"), Renewal("b", due, "t")]
    )
    finished = await store.finish(
        [
            Finish("c", due, "t", RunState.FAILED, "no"),
            Finish("a", due, "other", RunState.SUCCESS),
            Finish("b", due, "t", RunState.SUCCESS, "yes"),
        ]
    )
    released = await store.release(
        [Release("b", due, "t"), Release("d", due, "t"), Release("a", due, "t")]
    )

    assert renewed.answers == (True, False, True)
    assert finished.answers == (True, False, True)
    assert released.answers == (False, True, True)
    ended = {attempt.job: (attempt.state, attempt.detail) for attempt in await ask.history(*jobs)}
    assert ended == {
        "a": (RunState.INTERRUPTED, None),
        "b": (RunState.SUCCESS, "yes"),
        "c": (RunState.FAILED, "no"),
        "d": (RunState.INTERRUPTED, None),
    }


async def test_several_runs_of_one_job_are_written_in_one_call(ask, store, due):
    slots = [due + count * timedelta(seconds=1) for count in range(4)]
    for slot in slots:
        await ask.claim(slot, "t", overlap=Overlap.ALLOW)

    renewed = await store.renew([Renewal(JOB, slot, "t") for slot in reversed(slots)])
    finished = await store.finish(
        [Finish(JOB, slot, "t", RunState.SUCCESS, str(slot)) for slot in slots[:2]]
    )
    released = await store.release([Release(JOB, slot, "t") for slot in slots[2:]])

    assert renewed.answers == (True,) * 4
    assert finished.answers == released.answers == (True, True)
    assert [attempt.detail for attempt in await ask.history()] == [
        None,
        None,
        str(slots[1]),
        str(slots[0]),
    ]


async def test_one_question_asked_twice_in_a_call_is_answered_twice(ask, store, due):
    await ask.claim(due, "t")
    same = Finish(JOB, due, "t", RunState.SUCCESS)

    assert (await store.finish([same, same])).answers == (True, True)
    assert len(await ask.history()) == 1


async def test_jobs_may_be_asked_for_in_any_order(store, meet, due):
    jobs = ["c", "a", "b"]
    await meet(*jobs)

    reply = await store.claim([claim_of(due, job, job=job, instance=job) for job in jobs])

    assert [answer.holder for answer in reply.answers] == jobs


async def test_a_batch_of_500_is_won_renewed_and_finished(ask, store, meet, due):
    jobs = [f"job-{count}" for count in range(500)]
    await meet(*jobs)
    claims: list[Claim] = [claim_of(due, f"t-{job}", job=job, instance=job) for job in jobs]

    won = await store.claim(claims)
    lost = await store.claim([claim_of(due, "other", job=job) for job in jobs])
    renewed = await store.renew([Renewal(job, due, f"t-{job}") for job in jobs])
    known = await store.active([Registration(job, "v1") for job in jobs])
    finished = await store.finish(
        [Finish(job, due, f"t-{job}", RunState.SUCCESS, job) for job in jobs]
    )

    assert [answer.outcome for answer in won.answers] == [Outcome.WON] * 500
    assert [answer.holder for answer in lost.answers] == jobs
    assert {answer.outcome for answer in lost.answers} == {Outcome.RUNNING}
    assert renewed.answers == (True,) * 500
    assert [job.unfinished for job in known.answers] == [
        (Unfinished(due, 1, True, job),) for job in jobs
    ]
    assert finished.answers == (True,) * 500
    history = await ask.history(*jobs)
    assert {attempt.job: attempt.detail for attempt in history} == {job: job for job in jobs}


async def test_a_batch_of_500_new_jobs_is_met(store, now):
    jobs = [f"job-{count}" for count in range(500)]

    reply = await store.claim([claim_of(now - MINUTE, "t", job=job) for job in jobs])

    assert {answer.outcome for answer in reply.answers} == {Outcome.WON}
