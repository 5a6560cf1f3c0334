"""The ways to declare a job: a call with a handler, a decorator, or marks on a class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import datetime
from typing import TypeVar, Unpack, overload

from anarchon.action import Handler, Publisher
from anarchon.errors import ConfigurationError
from anarchon.job import Duration, Job, JobOptions
from anarchon.scheduler.decorators import declared_on
from anarchon.schedules import At, Cron, Every, Schedule
from anarchon.schedules.grammar import Day

H = TypeVar("H", bound=Handler | Publisher)


class Declaring(ABC):
    """Everything that takes a job in; all of it ends in ``add``."""

    @abstractmethod
    def add(
        self,
        name: str,
        schedule: Schedule,
        action: Handler | Publisher,
        **options: Unpack[JobOptions],
    ) -> Job:
        """Declare a job with any schedule; may be done while running.

        Raises ``ConfigurationError`` naming the job, the option and the fix.
        """

    @overload
    def every(
        self,
        name: str,
        interval: Duration,
        handler: None = None,
        *,
        anchor: datetime | None = None,
        offset: Duration | None = None,
        **options: Unpack[JobOptions],
    ) -> Callable[[H], H]: ...

    @overload
    def every(
        self,
        name: str,
        interval: Duration,
        handler: H,
        *,
        anchor: datetime | None = None,
        offset: Duration | None = None,
        **options: Unpack[JobOptions],
    ) -> H: ...

    def every(
        self,
        name: str,
        interval: Duration,
        handler: H | None = None,
        *,
        anchor: datetime | None = None,
        offset: Duration | None = None,
        **options: Unpack[JobOptions],
    ) -> H | Callable[[H], H]:
        """Declare a job on a grid of equal steps from the epoch, or from ``anchor``.

        Without a handler: a decorator, which returns the function as it is.
        """
        schedule = _schedule(name, lambda: Every(interval, anchor=anchor, offset=offset))
        return self._declare(name, schedule, handler, options)

    @overload
    def cron(
        self,
        name: str,
        expression: str,
        handler: None = None,
        *,
        timezone: str = "UTC",
        day: Day | None = None,
        **options: Unpack[JobOptions],
    ) -> Callable[[H], H]: ...

    @overload
    def cron(
        self,
        name: str,
        expression: str,
        handler: H,
        *,
        timezone: str = "UTC",
        day: Day | None = None,
        **options: Unpack[JobOptions],
    ) -> H: ...

    def cron(
        self,
        name: str,
        expression: str,
        handler: H | None = None,
        *,
        timezone: str = "UTC",
        day: Day | None = None,
        **options: Unpack[JobOptions],
    ) -> H | Callable[[H], H]:
        """Declare a job by a cron expression in a time zone; ``day`` is "and" or "or".

        Without a handler: a decorator, which returns the function as it is.
        """
        schedule = _schedule(name, lambda: Cron(expression, timezone, day=day))
        return self._declare(name, schedule, handler, options)

    @overload
    def at(
        self,
        name: str,
        moment: datetime,
        handler: None = None,
        **options: Unpack[JobOptions],
    ) -> Callable[[H], H]: ...

    @overload
    def at(self, name: str, moment: datetime, handler: H, **options: Unpack[JobOptions]) -> H: ...

    def at(
        self,
        name: str,
        moment: datetime,
        handler: H | None = None,
        **options: Unpack[JobOptions],
    ) -> H | Callable[[H], H]:
        """Declare a job that runs once.

        Without a handler: a decorator, which returns the function as it is.
        """
        schedule = _schedule(name, lambda: At(moment))
        return self._declare(name, schedule, handler, options)

    def _declare(
        self, name: str, schedule: Schedule, handler: H | None, options: JobOptions
    ) -> H | Callable[[H], H]:
        if handler is not None:
            self.add(name, schedule, handler, **options)
            return handler

        def decorate(function: H) -> H:
            self.add(name, schedule, function, **options)
            return function

        return decorate

    def register(self, owner: object) -> None:
        """Declare every method of an object that ``@every``, ``@cron`` or ``@at`` marked.

        Raises ``ConfigurationError`` if none is.
        """
        found = list(declared_on(owner)) if not isinstance(owner, type) else []
        if not found:
            wants = (
                "make an object of it first"
                if isinstance(owner, type)
                else ("mark its methods with @every, @cron or @at")
            )
            raise ConfigurationError(f"{owner!r} has no marked methods to register", fix=wants)
        for declaration, method in found:
            schedule = _schedule(declaration.name, declaration.schedule)
            self.add(declaration.name, schedule, method, **declaration.options)


def _schedule(job: str, make: Callable[[], Schedule]) -> Schedule:
    try:
        return make()
    except ConfigurationError as error:
        raise error.of_job(job) from None
