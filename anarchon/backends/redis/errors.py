"""What went wrong on the server or on the way to it, in the words of the port."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from redis import exceptions as driver

from anarchon.backends.redis.settings import Settings
from anarchon.errors import OutcomeUnknown, StoreError, StoreUnavailable

#: What a server answers in place of an answer. redis-py takes some of them for the loss of
#: the connection, which goes on all the same.
REFUSALS = (
    driver.ResponseError,
    driver.AuthenticationError,
    driver.AuthorizationError,
    driver.BusyLoadingError,
)

#: Said before a command or script begins, so that nothing has happened; by class, and for
#: those that redis-py has no class for by their first word.
_BEFOREHAND = (
    driver.AuthenticationError,
    driver.AuthorizationError,
    driver.BusyLoadingError,
    driver.ClusterDownError,
    driver.NoPermissionError,
    driver.OutOfMemoryError,
    driver.ReadOnlyError,
    driver.TryAgainError,
)
_BEFOREHAND_WORDS = {"BUSY", "MISCONF", "NOREPLICAS"}


@contextmanager
def translated(settings: Settings, *, sent: bool) -> Iterator[None]:
    """Raise our errors for the driver's; ``sent`` says that a request may have gone out."""
    try:
        yield
    except (driver.RedisError, OSError) as error:
        _redact(error, settings.secrets)
        kind = OutcomeUnknown if sent else StoreUnavailable
        raise kind(settings.label, _text(error)) from error


def raise_for(settings: Settings, refusals: list[driver.RedisError], *, some_ran: bool) -> None:
    """Raise what these refusals amount to, if there are any; ``some_ran``: of the same batch."""
    if not refusals:
        return
    broken = next((error for error in refusals if not _is_beforehand(error)), None)
    error = broken or refusals[0]
    _redact(error, settings.secrets)
    kind: type[StoreError] = StoreError
    if broken is None:
        kind = OutcomeUnknown if some_ran else StoreUnavailable
    raise kind(settings.label, _text(error)) from error


def _is_beforehand(error: driver.RedisError) -> bool:
    return isinstance(error, _BEFOREHAND) or str(error).split(" ")[0] in _BEFOREHAND_WORDS


def _text(error: Exception) -> str:
    text = str(error) or type(error).__name__
    if isinstance(error, driver.ReadOnlyError):
        return f"it is a read-only replica, and we need its primary ({text})"
    if isinstance(error, driver.MovedError):
        return f"it is a node of a cluster, to which we cannot talk ({text})"
    return text


def _redact(error: BaseException, secrets: tuple[str, ...]) -> None:
    """Take secrets out of an error and what caused it: servers echo commands they do not know."""
    seen: set[int] = set()
    chained: BaseException | None = error
    while chained is not None and id(chained) not in seen:
        seen.add(id(chained))
        for secret in secrets:
            if secret and secret in str(chained):
                chained.args = tuple(str(arg).replace(secret, "***") for arg in chained.args)
        chained = chained.__cause__ or chained.__context__
