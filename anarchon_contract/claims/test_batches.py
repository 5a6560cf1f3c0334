"""One step a batch: answers in the order of the questions, each on its own terms."""

from __future__ import annotations

from anarchon.claim_store import Save
from anarchon.clock import to_millis
from anarchon.run import RunState
from anarchon.store import Outcome
from anarchon_contract.claims.harness import Feature
from anarchon_contract.claims.questions import SECOND, ended, scheduled
from anarchon_contract.leases.questions import HOUR, JOB
from anarchon_contract.needing import needs


async def test_a_batch_hears_all_outcomes_in_the_order_it_asked(ask, store, due, now):
    await ask.claim(due, "x", job="done")
    await ask.claim(due, "y", job="ours")

    reply = await store.claim(
        [
            scheduled(now + HOUR, "y", job="none"),
            scheduled(due, "y", job="done"),
            scheduled(due, "y", job="won", instance="web-9", lease=9 * SECOND),
            scheduled(due, "y", job="late", within=SECOND),
            scheduled(due, "y", job="ours"),
        ]
    )

    assert [answer.outcome for answer in reply.answers] == [
        Outcome.NONE,
        Outcome.DONE,
        Outcome.WON,
        Outcome.LATE,
        Outcome.WON,
    ]
    won = reply.answers[2]
    assert (won.attempt, won.fence, won.lease) == (1, to_millis(due), 9 * SECOND)
    assert won.holder == "web-9"


async def test_jobs_may_be_asked_for_in_any_order(store, due):
    jobs = ["c", "a", "b"]

    reply = await store.claim([scheduled(due, job, job=job, instance=job) for job in jobs])

    assert [answer.holder for answer in reply.answers] == jobs


async def test_a_batch_that_is_asked_again_hears_the_same(store, due):
    claims = [scheduled(due, f"t-{count}", job=f"job-{count}") for count in range(20)]
    first = await store.claim(claims)

    assert (await store.claim(claims)).answers == first.answers


async def test_a_batch_of_500_is_won_by_the_first_and_lost_by_the_second(store, due):
    jobs = [f"job-{count}" for count in range(500)]

    won = await store.claim([scheduled(due, "t", job=job, instance=job) for job in jobs])
    lost = await store.claim([scheduled(due, "other", job=job) for job in jobs])

    assert [(answer.outcome, answer.holder) for answer in won.answers] == [
        (Outcome.WON, job) for job in jobs
    ]
    assert [answer.outcome for answer in lost.answers] == [Outcome.DONE] * 500


@needs(Feature.HISTORY)
async def test_a_batch_of_500_is_saved(ask, store, due):
    jobs = [f"job-{count}" for count in range(500)]
    await store.claim([scheduled(due, "t", job=job) for job in jobs])

    saved = await store.save(
        [Save(ended(due, RunState.FAILED, f"of {job}", job=job), 10) for job in jobs]
    )

    assert saved.answers == (True,) * 500
    history = await ask.history(*jobs)
    assert {one.job: (one.state, one.detail) for one in history} == {
        job: (RunState.FAILED, f"of {job}") for job in jobs
    }


@needs(Feature.HISTORY)
async def test_several_slots_of_one_job_are_saved_in_one_call(ask, store, due):
    slots = [due + count * SECOND for count in range(4)]
    for slot in slots:
        await ask.claim(slot, "t")

    saved = await store.save([Save(ended(slot, detail=str(slot)), 10) for slot in slots])

    assert saved.answers == (True,) * 4
    told = [(one.job, one.slot, one.detail) for one in await ask.history()]
    assert told == [(JOB, slot, str(slot)) for slot in reversed(slots)]


async def test_nothing_to_save_is_saved(store):
    assert (await store.save(())).answers == ()
