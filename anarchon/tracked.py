"""The rules of a published run that is followed to its end: waiting in the broker, and begun.

Its token travels with the message, and so two parties write under it, one after the other.
The instance that publishes holds the attempt from the claim on. It sends the message, renews
no more, and marks the run as ``queued``, which turns ``claimed`` into it and nothing else: a
worker may have been faster. Whoever receives the message asks to *begin*. The answer is no
unless the token is the run's and the run has not ended. Then it is yes

- if this very delivery asks again: its ``nonce`` is the one that was begun;
- if nobody has begun this ``retry`` yet, and the run is ``claimed`` or ``queued``;
- if ``retry`` is higher than the one that was begun: the message of a retry proves that the
  run before it gave up;

the latter two only until the start deadline, which ends with the beginning. So each retry of
an attempt starts once, whatever the broker delivers how often. From then on the worker renews
by token and ``holder``, and ends the run by token and ``nonce``: neither the instance that
published it nor another delivery can. A task that is to be retried sends the message of its
retry, then marks its run as ``queued`` with that number and a deadline of its own; that it is
refused is fine, the retry was faster.

A ``queued`` run is busy until its start deadline, and nobody's to take over: a backlog is no
crash. Neither mark asks for a live lease: a run that lapsed and was not taken over still waits
for nobody but its message.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from anarchon.clock import from_millis, to_millis
from anarchon.record import JobRecord, Run, Step, opened
from anarchon.run import RunState
from anarchon.store import Begin, Renewal, Terms, Waiting


def first_deadline(terms: Terms, slot: datetime) -> datetime | None:
    """Return until when the first attempt may be begun; ``None`` if the run is not tracked."""
    return None if terms.start_within is None else slot + terms.start_within


def next_deadline(run: Run, time: datetime) -> datetime | None:
    """Return until when the attempt that takes this run over may be begun.

    The start deadline is about work nobody began. Once it was begun the time counts anew, or a
    run whose worker died after it would be taken over for nothing.
    """
    if run.terms.start_within is None:
        return None
    return time + run.terms.start_within if run.deadline is None else run.deadline


def begin(record: JobRecord, asked: Begin, time: datetime) -> Step[bool]:
    run = record.runs.get(asked.slot)
    if run is None or not _may_begin(run, asked, time):
        return Step(False, record)
    begun = replace(
        run,
        state=RunState.RUNNING,
        expires=time + run.terms.lease,
        deadline=None,
        retry=asked.retry,
        nonce=asked.nonce,
        holder=asked.holder,
        message=asked.message,
        begun=run.begun or time,
    )
    return Step(True, record.having(begun), (opened(asked.job, begun),))


def _may_begin(run: Run, asked: Begin, time: datetime) -> bool:
    if run.token != asked.token or run.state.has_ended or not run.is_tracked:
        return False
    if run.nonce == asked.nonce:
        return True
    if run.deadline is not None and run.deadline <= time:
        return False
    waits = run.state in (RunState.CLAIMED, RunState.QUEUED)
    return asked.retry > run.retry or (waits and asked.retry == run.retry)


def mark(record: JobRecord, asked: Renewal, waiting: Waiting, time: datetime) -> Step[bool]:
    """Note that a run waits in the broker, for its first worker or for a retry."""
    run = record.runs.get(asked.slot)
    if run is None or run.state.has_ended or run.token != asked.token:
        return Step(False, record)
    if waiting.nonce is None:
        if run.state is not RunState.CLAIMED or not run.is_tracked:
            return Step(False, record)
        queued = replace(run, state=RunState.QUEUED, expires=None)
    else:
        if run.nonce != waiting.nonce or waiting.retry <= run.retry:
            return Step(False, record)
        assert run.terms.start_within is not None, "only a tracked run has a nonce"
        deadline = time + waiting.delay + run.terms.start_within
        queued = replace(
            run,
            state=RunState.QUEUED,
            expires=None,
            # whole milliseconds, as every store keeps it: a countdown may have parts of one
            deadline=from_millis(to_millis(deadline)),
            retry=waiting.retry,
            nonce=None,
            holder=None,
        )
    return Step(True, record.having(queued), (opened(asked.job, queued),))
