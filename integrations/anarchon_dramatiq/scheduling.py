"""A broker's schedules: more of them, and the scheduler that runs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

from dramatiq import Actor, Broker

from anarchon import ConfigurationError, JobOptions, Schedule, Scheduler
from anarchon.claim_store import AnyBackend
from anarchon_dramatiq.errors import InvalidPeriodic
from anarchon_dramatiq.middleware import AnarchonMiddleware
from anarchon_dramatiq.periodic import Periodic, checked, read_periodic


def schedule(
    broker: Broker,
    name: str,
    schedule: Schedule | Periodic,
    actor: Actor[..., Any],
    *,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    **job: Unpack[JobOptions],
) -> None:
    """Let an actor be due, under a name of its own; what is given here goes before ``schedule``.

    Call it in each process that is to know the schedule. Raises ``ConfigurationError``.
    """
    try:
        (given,) = read_periodic(schedule)
        periodic = checked(
            given.schedule,
            name,
            given.args if args is None else args,
            given.kwargs if kwargs is None else kwargs,
            given.options if options is None else options,
            {**given.job, **job},
        )
    except ConfigurationError as error:
        raise InvalidPeriodic.of(error.of_job(name)) from None
    _middleware_of(broker).declare(broker, actor, [replace(periodic, name=name)])


def scheduler_for(
    broker: Broker, *, store: str | AnyBackend | None = None, **scheduler_options: Any
) -> Scheduler:
    """Return a scheduler with a job for each schedule of the broker's actors; connects nowhere yet.

    The options go before those of the broker's ``AnarchonMiddleware``.
    """
    return _middleware_of(broker).make_scheduler(broker, store, **scheduler_options)


def _middleware_of(broker: Broker) -> AnarchonMiddleware:
    found = [one for one in broker.middleware if isinstance(one, AnarchonMiddleware)]
    if found:
        return found[0]
    raise ConfigurationError(
        f"{type(broker).__name__} has no AnarchonMiddleware",
        option="middleware",
        fix='write broker.add_middleware(AnarchonMiddleware(store="redis://HOST:6379/0"))',
    )
