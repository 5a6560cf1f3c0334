"""Every error anarchon raises, under one root.

Losing a claim is an answer, not an error, so nothing here stands for it. Errors carry
fields and build their message from them: read the fields, not the text.
"""

from __future__ import annotations


class AnarchonError(Exception):
    """The root of every error this package raises."""


class ConfigurationError(AnarchonError, ValueError):
    """Something was declared wrongly; found before anything ran.

    ``problem`` says what is wrong, ``fix`` what to write instead; ``job`` and ``option``
    name the place, where there is one.
    """

    def __init__(
        self,
        problem: str,
        *,
        job: str | None = None,
        option: str | None = None,
        fix: str | None = None,
    ) -> None:
        self.problem = problem
        self.job = job
        self.option = option
        self.fix = fix
        super().__init__(problem)

    def __str__(self) -> str:
        place = f"job {self.job!r}: " if self.job is not None else ""
        option = f"{self.option}: " if self.option is not None else ""
        fix = f"; {self.fix}" if self.fix is not None else ""
        return f"{place}{option}{self.problem}{fix}"

    def of_job(self, job: str) -> ConfigurationError:
        """Return the same error, naming the job it was found in."""
        return type(self)(self.problem, job=job, option=self.option, fix=self.fix)


class InvalidSchedule(ConfigurationError):
    """A schedule cannot be read, or never yields a slot."""


class DuplicateJob(ConfigurationError):
    """Two jobs of one scheduler have the same name."""


class UnknownBackend(ConfigurationError):
    """No backend answers to the scheme of a store URL."""


class MissingExtra(ConfigurationError):
    """The driver of a backend is not installed."""


class StoreError(AnarchonError):
    """The store could not be asked, or said something we cannot accept.

    ``store`` names the store as it may be shown (never with a password); the driver's own
    error is the ``__cause__``. ``partly`` tells that this is about some of what was asked: the
    store may well answer for the rest, if that is asked without it.
    """

    def __init__(self, store: str, problem: str) -> None:
        self.store = store
        self.problem = problem
        self.partly = False
        super().__init__(store, problem)

    def __str__(self) -> str:
        return f"{self.store}: {self.problem}"


class StoreUnavailable(StoreError):
    """The store was not reached: nothing happened there."""


class StoreRefused(StoreUnavailable):
    """The store, or the way to it, will not have us as we are set up: nothing happened there.

    An unknown host, a wrong password, a missing database or right, a server that only follows
    another one. It may be mended there while we wait, so whoever waits for a store waits on.
    """


class OutcomeUnknown(StoreError):
    """The request went out and no answer came: it may have happened, ask before you act."""


class SchemaMismatch(StoreError):
    """The store holds tables or keys of another version than this package can use."""


class NoHistory(StoreError):
    """The store keeps no history to be asked for."""


class Interrupted(AnarchonError):
    """An attempt was told to end; ``reason`` is ``stop``, ``lease_lost`` or ``timeout``."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)

    def __str__(self) -> str:
        return f"the attempt must end: {self.reason}"


class LeaseLost(Interrupted):
    """An attempt was superseded, or its lease can no longer be trusted."""

    def __init__(self, reason: str = "lease_lost") -> None:
        super().__init__(reason)


class NotRunning(AnarchonError):
    """A scheduler was asked for something it only does while it runs."""
