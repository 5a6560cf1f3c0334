"""Judges from outside: what the work wrote down, against what the guarantees demand.

It knows ``docs/guarantees.md`` and the options of the jobs, and nothing of the engine or the
store. *Patience* is for how long a healthy machine may take beyond each bound. The store's clock
may be off by a lease's margin, or a patience if that is shorter, without any trouble.

**Able** is an instance that lives, declares the job, and has no trouble, of its own or of the
store, for `BACK` (a call that hangs until its deadline, and a pause). A trouble of an
instance's own clock is none: the store's decides. **Harmed** is one that is killed, told to
stop, frozen, or cut, or whose store is away, has forgotten, or shows a wrong time.

``MISSED``: a slot that had to start, and nobody started it by its bound.

- It had to start by slot + jitter + patience if one instance was able from before the slot to
  then. That nobody hands over in between is meant: who starts later catches up, as follows.
- An instance that is able from some moment on, at its start or after a trouble, sees to the
  newest slot then: by that moment + jitter + patience, if it was due less than ``catch_up``
  ago and after the job was known to the store (G8). After a trouble that was shorter than a
  lease this holds where ``max_late`` is no shorter than a lease.
- Whoever is harmed between the slot and that bound may have claimed it, unheard: then the
  bound is lease + 2 heartbeats + jitter + patience after the harm (G6; nothing of the lease
  after a stop; after a cut or an outage `BACK` or a lease, whichever is longer), and so on
  for harms on the way. There is none when ``max_attempts`` may be used up, when nobody able
  watches until then, when under ``overlap="skip"`` the next slot is due by then, which
  replaces it, or when the store forgot, or its clock was wrong, on the way.
- A run whose body was under way when its instance was killed, or frozen for longer than all of
  this takes, must start again by the same bound, and one that a stop interrupted within 2
  heartbeats + jitter + patience after its body ended (G6, G7).
- Under ``overlap="skip"`` a slot is *skipped* instead, which is no finding (G9), if another run of
  the job may have been busy at some moment between the slot and its bound: from its
  claim, which its fence tells, until a patience after its end; where its holder was harmed, until
  what it left behind has lapsed. A harm counts as such a run by itself, while a slot that
  might have been claimed then shows no attempt for it.

- On a store without leases there is none either: what somebody harmed may have won is lost.

``LATE``: the same slot, started after its bound; or a first attempt later than ``max_late`` (and
the next slot) after its slot, by an instance that had no gap since then to catch up from.

``EXTRA``: a first attempt that nothing permits: of a slot from before its edition was first seen;
by an instance with a gap later than ``catch_up``, or when a newer slot was due before it asked
the store (which it may have done in time, if a trouble kept its claim waiting: excused). Under
skip also a takeover by an instance that started when a newer slot was due and the lease had
lapsed. A trouble between claim and start gives a start one lease more than these.

``PHANTOM``: a body of an instance that did not live then (a patience around its life) or does not
declare the job; of a slot that is not in the schedule, its own edition's for a first attempt,
anybody's for a later one; or from before its slot, excused while the store's clock is wrong.

``DOUBLED``: two bodies of a slot, one after the other, unless the second has the higher attempt and
a harm of the first's instance or the store explains it: between its claim and the record of its
end, and long enough for the lease to lapse before the second's claim. How early that may be is
said in `anarchon.testing.docket`: patience has no part in it, and of two claims whose fences are
times the store's own clock tells whether a lease fits between them. A stop explains it only
after a body that failed from then on, or never ended. A body that had returned, or a message, is
excused then, and listed: its end was not recorded. Also an attempt without those before it though
nobody was harmed since its slot, and more attempts than ``max_attempts`` of which each was killed
under way. A message may come twice under one token if its sender was harmed around it.

``OVERLAP``: two bodies of a slot at one time, or under skip of a job, unless the first's lease had
lapsed by a harm as above before the second began, or was released as the last act of its
process, or the first outlived its ``timeout``: zombies, excused and listed.

``FENCE``: a fence that two attempts share, or that is lower than that of an earlier attempt of its
slot, or of any body of the job that was surely claimed before: it started a patience before,
or under skip had ended before. Excused under allow if a harm may have held up the start of what
was due by then, and if the store both forgot and showed a wrong time.

``FORGOT`` excuses, of each slot whose claim, body or end fell into it, one body more.
Not judged: whether an instance had room for the run, and brokers.
"""

from __future__ import annotations

from datetime import timedelta

from anarchon.testing.attempts import judge_attempts
from anarchon.testing.demands import judge_demands
from anarchon.testing.docket import Docket
from anarchon.testing.evidence import Evidence
from anarchon.testing.harms import Harms
from anarchon.testing.starts import judge_starts
from anarchon.testing.verdict import Finding, Kind, Verdict

__all__ = ["Finding", "Kind", "Verdict", "check"]


def check(evidence: Evidence, *, patience: timedelta) -> Verdict:
    """Judge everything about one test; ``patience`` is what a healthy machine may take.

    An instance that is told to stop is thought to be gone 30 s later. So one whose ``grace`` is
    longer than the default of 20 s is not judged rightly: of a body that goes on after those
    30 s and never ends, overlaps are not seen, and slots it keeps from starting are missed.
    """
    harms = Harms(evidence)
    declared = {job.name for life in evidence.lives for job in life.jobs}
    findings: list[Finding] = []
    excused: list[Finding] = []
    demanded = skipped = 0
    for name in sorted(declared | {body.job for body in evidence.bodies}):
        docket = Docket(name, evidence, harms, patience)
        missing, lost, owed, kept_back = judge_demands(docket)
        demanded += owed
        skipped += kept_back
        for found, explained in (
            (missing, lost),
            judge_starts(docket),
            judge_attempts(docket),
        ):
            findings += found
            excused += explained
    return Verdict(
        findings=tuple(sorted(findings, key=_order)),
        excused=tuple(sorted(excused, key=_order)),
        demanded=demanded,
        skipped=skipped,
        takeovers=sum(body.attempt > 1 for body in evidence.bodies),
    )


def _order(finding: Finding) -> tuple[object, ...]:
    return finding.slot, finding.job, finding.kind
