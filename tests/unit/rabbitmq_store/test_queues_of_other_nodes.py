"""A queue that another node has, or that another connection makes in this very moment."""

from __future__ import annotations

from typing import Any

import pytest
from amqp.exceptions import NotFound

from anarchon.backends.rabbitmq.link import Link
from anarchon.backends.rabbitmq.names import Mark
from anarchon.backends.rabbitmq.refusals import Made
from anarchon.backends.rabbitmq.settings import Settings
from anarchon.clock import SystemClock
from anarchon.errors import StoreUnavailable

_SAID = (
    "NOT_FOUND - home node 'rabbit@two' of durable queue 'anarchon.a.b.1' in vhost '/' is down or"
    " inaccessible"
)


class Channel:
    """Refuses so many declarations with the words of a broker."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.asked = 0

    def queue_declare(self, *_: Any, **__: Any) -> None:
        self.asked += 1
        if self.asked <= self.refusals:
            raise NotFound(_SAID, (50, 10), reply_code=404)


def linked_to(channel: Channel) -> Link:
    link = Link(Settings.of("amqp://h"), "a", SystemClock())
    link._channel = channel
    return link


def test_a_queue_that_is_just_being_made_is_asked_for_again():
    channel = Channel(refusals=1)

    assert linked_to(channel).make("anarchon.a.b.1", 60_000, Mark.of("t", "i")) == Made()
    assert channel.asked == 2


def test_a_queue_whose_node_is_down_is_nothing_that_was_won_or_lost():
    """Nothing happened, so it may be asked for again, until it is late."""
    channel = Channel(refusals=100)

    with pytest.raises(StoreUnavailable) as raised:
        linked_to(channel).make("anarchon.a.b.1", 60_000, Mark.of("t", "i"))

    assert channel.asked < 10
    assert "node" in raised.value.problem
