"""A look at the servers that leaves their streams as they are."""

from __future__ import annotations

from anarchon.backends.nats.link import Link
from anarchon.backends.nats.names import Names
from anarchon.backends.nats.settings import Settings
from anarchon.backends.nats.streams import Streams
from anarchon.standing import Standing


async def examine(settings: Settings, namespace: str) -> Standing:
    """Say how the servers stand; raises ``StoreError``."""
    streams = Streams(settings, Names(namespace))
    link = Link(settings, streams.look)
    try:
        connection = await link.open()
        version = connection.client.connected_server_version
        doubts = streams.doubts(in_a_cluster=connection.client.cluster is not None)
        if (version.major, version.minor) < (2, 10):
            doubts.append(
                f"NATS {version.major}.{version.minor} does not tell its time: whether a slot is"
                " due or late is judged by the clock of each host; 2.10 does"
            )
        server = f"NATS {version.major}.{version.minor}.{version.patch}"
        return Standing(server, streams.are_there, tuple(doubts))
    finally:
        await link.close()
