"""What the driver's client is made to leave undone, by inner parts that may change."""

from __future__ import annotations

import nats

from anarchon.backends.nats.client import Client


async def _publish_and_go(server, listener) -> int:
    """Return how many messages come of one that was not sent yet when its client went."""
    heard = await listener.subscribe("late")
    await listener.flush()
    client = Client()
    await client.connect(server.url(), allow_reconnect=False)
    await client.publish("late", b"claim")
    assert client.pending_data_size
    client.reset()
    await client.close()
    await listener.publish("late", b"the last")
    count = 0
    while (await heard.next_msg(timeout=10)).data != b"the last":
        count += 1
    return count


async def test_what_was_not_sent_yet_is_not_sent_after_a_reset(server):
    listener = await nats.connect(server.url())

    assert await _publish_and_go(server, listener) == 0

    await listener.close()


async def test_a_client_that_was_reset_is_not_connected_any_more(server):
    client = Client()
    await client.connect(server.url(), allow_reconnect=False)
    client.reset()
    await client.close()

    assert client.is_closed
    assert not client.is_connected
    # nor does it mind to be told twice
    client.reset()
