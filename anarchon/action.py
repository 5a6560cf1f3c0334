"""What a job does: a handler is called here, a publisher hands the run to a broker."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from enum import StrEnum
from types import FunctionType
from typing import Protocol

from anarchon.errors import ConfigurationError
from anarchon.run import RunContext

Handler = Callable[[RunContext], Awaitable[object] | object]


class Publisher(Protocol):
    """An action that hands a run to a broker instead of doing it here."""

    #: What the message asks for, and where it goes, without a password; a change of either is
    #: a new edition of the job, so that two environments that share a store by mistake notice.
    task: str
    sends_to: str

    def publish(self, ctx: RunContext) -> str:
        """Send the message and return its id, once the broker has confirmed it.

        Called on the publishing thread. Must end by itself within seconds; whatever it raises
        counts as not sent and is tried again.
        """


class Piece(Protocol):
    """Messages that go one way together."""

    @property
    def is_held_back(self) -> bool:
        """Whether none of them is out before the end, so that they may still be taken back."""


class Way(Protocol):
    """A way to a broker on which messages can go together.

    A publisher that has one says so by an attribute ``way``, the same object in all that share it.
    """

    def together(self) -> AbstractContextManager[Piece]:
        """Send what is published inside by the end of it, in the order it came.

        Raises, at the end or before, what kept any of it from being sent: all of it counts
        as not sent then and is tried again. What is raised inside takes back what is held back.
        """


def way_of(action: Handler | Publisher) -> Way | None:
    """Return the way that an action's messages can go together with others."""
    return getattr(action, "way", None)


class Kind(StrEnum):
    """How an action is carried out."""

    COROUTINE = "coroutine"
    THREAD = "thread"
    PUBLISH = "publish"


def publishes(action: Handler | Publisher) -> bool:
    """Tell whether an action is a publisher, well made or not."""
    return callable(getattr(action, "publish", None))


def kind_of(action: Handler | Publisher) -> Kind:
    """Read off an action how it is carried out.

    Raises ``ConfigurationError``, which says what to give instead.
    """
    if publishes(action):
        for name in ("task", "sends_to"):
            if not isinstance(getattr(action, name, None), str):
                raise ConfigurationError(
                    f"{action!r} publishes, and has no text {name!r}",
                    option="handler",
                    fix="give it the attributes of anarchon.Publisher",
                )
        return Kind.PUBLISH
    if not callable(action):
        raise ConfigurationError(
            f"{action!r} cannot be called", option="handler", fix="give a function of one argument"
        )
    if not _plainly_takes_one(action):
        _check_signature(action)
    inner: object = action
    while isinstance(inner, functools.partial):
        inner = inner.func
    method = type(inner).__call__ if callable(inner) else None
    if inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(method):
        return Kind.COROUTINE
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise ConfigurationError(
            f"{inner!r} yields, and nobody would ask it for more",
            option="handler",
            fix="give a function that returns when the work is done",
        )
    return Kind.THREAD


def _plainly_takes_one(handler: Callable[..., object]) -> bool:
    """Tell, far sooner than a signature does, of a function without anything special to it."""
    if type(handler) is not FunctionType or handler.__dict__:
        return False
    code = handler.__code__
    most = code.co_argcount
    return not code.co_kwonlyargcount and most - len(handler.__defaults__ or ()) <= 1 <= most


def _check_signature(handler: Callable[..., object]) -> None:
    try:
        signature = inspect.signature(handler)
    except (TypeError, ValueError):
        return  # written in C: called with one argument, come what may
    try:
        signature.bind(object())
    except TypeError:
        raise ConfigurationError(
            f"{getattr(handler, '__qualname__', handler)!s}{signature} cannot be called with one"
            " argument",
            option="handler",
            fix="give a function that takes the run's context: def handler(ctx)",
        ) from None
