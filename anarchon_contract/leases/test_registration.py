"""What the store tells an instance that registers its jobs."""

from __future__ import annotations

from datetime import timedelta

from anarchon.run import Overlap
from anarchon.store import FINGERPRINT_MEMORY, Outcome, Registration, Unfinished
from anarchon_contract.leases.questions import JOB, MINUTE

MILLISECOND = timedelta(milliseconds=1)


async def test_no_jobs_at_all_just_tells_the_time(store):
    before = (await store.active(())).time

    reply = await store.active(())

    assert reply.answers == ()
    assert reply.time >= before
    assert reply.time.utcoffset() == timedelta(0)


async def test_a_new_job_is_seen_first_now(ask):
    before = await ask.time()

    known = await ask.register()

    assert before - MILLISECOND <= known.first_seen <= await ask.time()
    assert known.others == ()
    assert known.unfinished == ()


async def test_a_known_fingerprint_keeps_the_time_it_was_seen_first(ask):
    first = await ask.register()

    assert (await ask.register()).first_seen == first.first_seen


async def test_an_edited_schedule_is_seen_first_now(ask, harness, due):
    """Nothing due before the edit may be caught up, though the job is known for a year."""
    await ask.register("v1")
    before = await ask.time()

    assert (await ask.register("v2")).first_seen >= before - MILLISECOND


async def test_other_fingerprints_in_use_are_named(ask):
    """G11: a difference is noticed at start."""
    before = await ask.time()
    await ask.register("v2")
    await ask.register("v1")

    known = await ask.register("v3")

    assert [fingerprint for fingerprint, _ in known.others] == ["v1", "v2"]
    assert all(seen >= before - MILLISECOND for _, seen in known.others)


async def test_fingerprints_of_other_jobs_are_not_named(ask):
    await ask.register("v1", job="other")

    assert (await ask.register("v2")).others == ()


async def test_a_fingerprint_not_registered_for_long_is_forgotten(ask, harness):
    await ask.register("v1")
    await ask.register("v2")
    await harness.age_fingerprint(JOB, "v1", FINGERPRINT_MEMORY + MINUTE)
    before = await ask.time()

    assert (await ask.register("v2")).others == ()

    # coming back to the old text is a new edition
    again = await ask.register("v1")
    assert again.first_seen >= before - MILLISECOND


async def test_a_fingerprint_registered_of_late_is_remembered(ask, harness):
    await ask.register("v1")
    await harness.age_fingerprint(JOB, "v1", FINGERPRINT_MEMORY - MINUTE)

    ((fingerprint, seen),) = (await ask.register("v2")).others

    assert fingerprint == "v1"
    assert seen < await ask.time() - FINGERPRINT_MEMORY + 2 * MINUTE


async def test_registering_anew_refreshes_the_memory(ask, harness):
    first = await ask.register("v1")
    await harness.age_fingerprint(JOB, "v1", FINGERPRINT_MEMORY - MINUTE)
    await ask.register("v1")
    await harness.age_fingerprint(JOB, "v1", FINGERPRINT_MEMORY - MINUTE)

    assert [name for name, _ in (await ask.register("v2")).others] == ["v1"]
    assert (await ask.register("v1")).first_seen == first.first_seen


async def test_a_fingerprint_that_comes_back_itself_keeps_its_first_time(ask, harness):
    """The only edition there is: a total downtime of a day is no edit."""
    first = await ask.register("v1")
    await harness.age_fingerprint(JOB, "v1", timedelta(days=1))

    assert (await ask.register("v1")).first_seen == first.first_seen


async def test_unfinished_runs_are_told_in_the_order_of_their_slots(ask, harness, due):
    await ask.claim(due + MINUTE / 2, "b", instance="web-2", overlap=Overlap.ALLOW)
    await ask.claim(due, "a", instance="web-1", overlap=Overlap.ALLOW)
    await harness.lapse(JOB, due)

    known = await ask.register()

    assert known.unfinished == (
        Unfinished(due, 1, False, "web-1"),
        Unfinished(due + MINUTE / 2, 1, True, "web-2"),
    )


async def test_a_job_registered_first_has_nothing_to_catch_up(ask, now):
    await ask.register()

    assert (await ask.claim(now - MINUTE)).outcome is Outcome.DONE


async def test_registering_again_does_not_move_the_floor(ask, due):
    await ask.register("v1")
    await ask.register("v2")

    assert (await ask.claim(due)).outcome is Outcome.WON


async def test_a_job_known_by_a_claim_only_is_seen_first_when_it_registers(ask, now):
    await ask.claim(now - MINUTE)
    before = await ask.time()

    assert (await ask.register()).first_seen >= before - MILLISECOND


async def test_many_jobs_register_in_one_call(store, meet, ask, due):
    await ask.claim(due, "a")
    jobs = [f"job-{count}" for count in range(300)]

    reply = await store.active([Registration(job, "v1") for job in [*jobs, JOB]])

    assert len(reply.answers) == 301
    assert all(known.unfinished == () for known in reply.answers[:-1])
    assert [run.slot for run in reply.answers[-1].unfinished] == [due]
