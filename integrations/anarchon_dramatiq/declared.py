"""The schedules of one broker, checked as they are declared, and the scheduler made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dramatiq import Actor, Broker

from anarchon import ConfigurationError, DuplicateJob, Scheduler
from anarchon.claim_store import AnyBackend
from anarchon.job import define
from anarchon_dramatiq.ages import job_options
from anarchon_dramatiq.errors import InvalidPeriodic
from anarchon_dramatiq.periodic import Periodic
from anarchon_dramatiq.publisher import DramatiqPublisher, sample_of
from anarchon_dramatiq.way import way_to


@dataclass(frozen=True, slots=True)
class Declared:
    """A schedule of an actor, under the name that all instances know it by."""

    name: str
    actor: Actor[..., Any]
    periodic: Periodic
    job: Mapping[str, object]


class Schedules:
    """What is declared for one broker; ``claims_only`` names a store that keeps no leases."""

    def __init__(self, defaults: Mapping[str, Any], claims_only: str | None = None) -> None:
        self._defaults = defaults
        self._claims_only = claims_only
        self._declared: dict[str, Declared] = {}

    def declare(
        self, broker: Broker, actor: Actor[..., Any], given: list[Periodic]
    ) -> tuple[str, ...]:
        """Take in the schedules of an actor, all or none, and return their names.

        Raises ``InvalidPeriodic``.
        """
        found: dict[str, Declared] = {}
        try:
            for periodic in given:
                one = self._checked(broker, actor, periodic, found)
                found[one.name] = one
        except ConfigurationError as error:
            raise InvalidPeriodic.of(error) from None
        self._declared |= found
        return tuple(found)

    def add_to(self, scheduler: Scheduler, broker: Broker) -> None:
        """Add a job for each schedule; their messages go one way."""
        way = way_to(broker)
        for one in self._declared.values():
            publisher = DramatiqPublisher(one.actor, one.periodic, way)
            job: Any = one.job
            scheduler.add(one.name, one.periodic.schedule, publisher, **job)

    def _checked(
        self,
        broker: Broker,
        actor: Actor[..., Any],
        periodic: Periodic,
        beside: Mapping[str, Declared],
    ) -> Declared:
        name = actor.actor_name if periodic.name is None else periodic.name
        if actor.broker is not broker:
            raise ConfigurationError(
                f"{actor.actor_name} is an actor of another broker",
                job=name,
                option="actor",
                fix="schedule it on the broker that it was declared for",
            )
        former = beside.get(name) or self._declared.get(name)
        if former is not None:
            raise DuplicateJob(
                f"a schedule of {former.actor.actor_name} has this name already",
                job=name,
                fix='give this one another: name="..."',
            )
        publisher = DramatiqPublisher(actor, periodic, way_to(broker))
        try:
            job = job_options(actor, periodic.options, periodic.job, self._defaults)
        except ConfigurationError as error:
            raise error.of_job(name) from None
        define(
            name,
            periodic.schedule,
            publisher,
            job,
            self._defaults,
            claims_only=self._claims_only,
        )
        try:
            sample_of(actor, periodic)
        except Exception as error:
            raise ConfigurationError(
                f"its message cannot be encoded: {error}",
                job=name,
                option="periodic",
                fix="write args, kwargs and options that JSON knows",
            ) from error
        return Declared(name, actor, periodic, job)


def store_given(store: object) -> str | AnyBackend:
    """Return the store that was given; raises ``ConfigurationError`` where there is none."""
    if store:
        return store  # type: ignore[return-value]  # the scheduler says what it may be
    raise ConfigurationError(
        "there is no store", option="store", fix='write store="redis://HOST:6379/0"'
    )
