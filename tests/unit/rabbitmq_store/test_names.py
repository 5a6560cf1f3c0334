"""What queues and marks are called, and what can be read of them in a refusal that was cut off."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from anarchon.backends.rabbitmq.names import LONGEST_VHOST, NOBODY, PREFIX, Mark, queue_name
from anarchon.backends.rabbitmq.refusals import Absent, Taken, read_refusal

ODD = {
    "usual": "web-1",
    "a quote": "it's",
    "unicode": "ñandú-日本",
    "dots": ".a..b.",
    "wildcards": "*.#?%20",
    "a cut": "xxxx*AshnjCcuj93TVVFY",
    "long": "x" * 200,
    "long unicode": "🦀" * 200,
}
ALIKE = ("a", "A", "a ", "a.", "a.a", "%61", "á", "a\u0301", "x" * 199)
SLOT = datetime(2026, 11, 30, 12, tzinfo=UTC)


def refusal(queue: str, vhost: str, current: str, received: str = NOBODY) -> str:
    """Return what RabbitMQ says, and cuts off."""
    text = (
        f"PRECONDITION_FAILED - inequivalent arg 'x-dead-letter-exchange' for queue '{queue}'"
        f" in vhost '{vhost}': received '{received}' but current is '{current}'"
    )
    return text if len(text.encode()) <= 255 else text.encode()[:252].decode() + "..."


def test_a_queue_says_whose_slot_it_is():
    name = queue_name("/", "shop", "app.tasks.send report", SLOT)

    assert name == "anarchon.shop.app.tasks.send%20report.1796040000000"


@pytest.mark.parametrize("vhost", ["/", "v" * LONGEST_VHOST])
def test_no_two_names_are_one_queue(vhost):
    names = [*ODD.values(), *ALIKE]
    queues = {queue_name(vhost, space, job, SLOT) for space in names for job in names}

    assert len(queues) == len(names) ** 2
    assert all(queue.isascii() and queue.startswith(PREFIX) for queue in queues)


def test_a_namespace_that_ends_like_a_job_begins_is_another_one():
    assert queue_name("/", "a", "b.c", SLOT) != queue_name("/", "a.b", "c", SLOT)


@pytest.mark.parametrize("instance", ODD.values(), ids=ODD)
@pytest.mark.parametrize("name", ["a", "x" * 200, "🦀" * 200])
@pytest.mark.parametrize("vhost", ["/", "v" * LONGEST_VHOST])
@pytest.mark.parametrize("slot", [SLOT, datetime.max.replace(tzinfo=UTC)], ids=["now", "last"])
def test_whose_a_queue_is_can_always_be_read(vhost, name, instance, slot):
    """However long its names are, and however late: the token comes before the cut."""
    mark = Mark.of("token", instance)
    said = read_refusal(refusal(queue_name(vhost, name, name, slot), vhost, str(mark)))

    assert isinstance(said, Taken)
    assert said.mark is not None
    assert said.mark.token == mark.token
    assert said.mark.instance in (None, instance)


def test_the_instance_is_read_where_its_name_is_of_usual_length():
    queue = queue_name("/", "shop", "nightly-report", SLOT)
    current = str(Mark.of("a", "web-1a2b3c4d"))

    said = read_refusal(refusal(queue, "/", current))

    assert said == Taken(Mark.of("a", "web-1a2b3c4d"))


def test_a_mark_that_is_not_ours_is_nobodys():
    assert read_refusal(refusal("q", "/", "dead-letters")) == Taken(None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "PRECONDITION_FAILED - invalid arg 'x-max-length' for queue 'q' in vhost '/':"
            " {value_negative,-1}",
            Absent(),
        ),
        (
            "PRECONDITION_FAILED - inequivalent arg 'x-expires' for queue 'q' in vhost '/':"
            " received '60000' but current is '660000'",
            Taken(expires=660000),
        ),
        (
            "PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q' in vhost '/':"
            " received 'true' but current is 'false'",
            Taken(),
        ),
        (
            "PRECONDITION_FAILED - cannot declare queue 'q' in vhost '/':"
            " queue limit in vhost '/' (5) is reached",
            None,
        ),
    ],
)
def test_each_refusal_is_understood(text, said):
    assert read_refusal(text) == said
