"""The backend of the modes without leases, ``?mode=script``, ``stream-id`` and ``idmp``.

The least rights that do, as ``ACL SETUSER`` takes them::

    ~anarchon:* +evalsha +script|load +time +get +set
    +xadd +xdel +xlen +xrange +xrevrange

besides ``+xcfgset`` for ``idmp``, and those that ``anarchon.backends.redis`` names.

**script** A key for each slot that was claimed, which goes by itself once nobody can ask for the
slot any more. Any Redis from 7 on, and Valkey. 130 to 190 bytes for a slot that is remembered.

**stream-id** A stream for each job, with the slot as the id of an entry. It is a high-water mark:
once a slot was claimed no older one can be, "taken" and "too old" both hear ``done``, and nothing
is ever forgotten. Any Redis from 7 on, and Valkey. Flat: about 100 entries a job. Who asks again
whether it has won hears ``done`` when more newer slots than these were claimed since.

**idmp** A stream for each job, to which an entry is added once for its idempotency id. Redis 8.6
or later, and no Valkey. The server remembers an id for a day and 10,000 ids a job, so no claim
wins that is later than a day; of a job that is due more than 10,000 times in the time that its
slots have, some could be won twice. ``XCFGSET`` with other values on such a stream makes the
server forget all of its ids.

In all of them a claim is lost with the key that holds it: what a failover loses may start again,
unless ``wait_replicas`` has it waited for.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from anarchon.backends.redis.addresses import read_store_url
from anarchon.backends.redis.backend import Linking
from anarchon.backends.redis.claim_modes import LEASE, MODES
from anarchon.backends.redis.claims import RedisClaimStore
from anarchon.backends.redis.keys import Keys
from anarchon.errors import ConfigurationError


class RedisClaimBackend(Linking):
    """A Redis or Valkey server that only says who has a slot, in the way that ``mode`` names.

    Takes the URLs that ``RedisBackend`` takes.
    """

    judges_time = True

    def __init__(self, url: str) -> None:
        settings = read_store_url(url)
        if settings.mode is LEASE:
            raise ConfigurationError(
                "names no way to claim without leases",
                option="store",
                fix=f"add ?mode= with one of {', '.join(m for m in MODES if m != LEASE.name)}",
            )
        self._mode = settings.mode
        dividing = "&" if "?" in settings.label else "?"
        super().__init__(
            replace(settings, label=f"{settings.label}{dividing}mode={self._mode.name}")
        )

    def connect(self, namespace: str) -> RedisClaimStore:
        keys = Keys(namespace)
        return RedisClaimStore(self._link(keys), keys, self._mode)

    def remembers(self, within: timedelta) -> timedelta | None:
        return self._mode.remembers(within)
