"""Marked methods are registered, and what has none is refused."""

import pytest

from anarchon import Scheduler, every
from anarchon.backends.memory import MemoryBackend
from anarchon.errors import ConfigurationError
from anarchon.run import RunContext


class Marked:
    @staticmethod
    @every("mark below", "1s")
    def below(ctx: RunContext) -> str:
        return "below"

    @every("mark above", "1s")
    @staticmethod
    def above(ctx: RunContext) -> str:
        return "above"

    @classmethod
    @every("of the class", "1s")
    def of_the_class(cls, ctx: RunContext) -> str:
        return cls.__name__


class Unmarked:
    def method(self, ctx: RunContext) -> None:
        pass


def marked_alone(ctx: RunContext) -> None:
    pass


def test_marks_above_and_below_static_and_class_methods_are_found() -> None:
    scheduler = Scheduler(MemoryBackend())

    scheduler.register(Marked())

    assert {job.name for job in scheduler.jobs} == {"mark below", "mark above", "of the class"}


@pytest.mark.parametrize(
    ("owner", "fix"),
    [
        (Unmarked(), "mark its methods with @every, @cron or @at"),
        (Marked, "make an object of it first"),
        (marked_alone, "mark its methods with @every, @cron or @at"),
    ],
)
def test_registering_what_has_no_marked_methods_is_refused(owner: object, fix: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Scheduler(MemoryBackend()).register(owner)

    assert refused.value.fix == fix
