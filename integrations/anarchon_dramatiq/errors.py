"""What is wrong with a declaration, told where it is made."""

from __future__ import annotations

from dramatiq.middleware import MiddlewareError

from anarchon import ConfigurationError


class InvalidPeriodic(ConfigurationError, MiddlewareError):
    """A schedule that cannot be declared; dramatiq lets through what is a middleware's error."""

    def __init__(
        self,
        problem: str,
        *,
        job: str | None = None,
        option: str | None = None,
        fix: str | None = None,
    ) -> None:
        super().__init__(problem, job=job, option=option, fix=fix)

    @classmethod
    def of(cls, error: ConfigurationError) -> InvalidPeriodic:
        """Return an error of the engine's as one of these."""
        return cls(error.problem, job=error.job, option=error.option, fix=error.fix)
