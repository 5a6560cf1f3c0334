"""The ways to decide on a slot that a URL may name by ``?mode=``, and what each needs and keeps.

``lease`` is the one with leases and the one that is meant where none is named; the others only
say who has a slot. A namespace is of one mode, whose name is written into its layout: claims of
one way are not seen by another.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from anarchon.backends.redis import scripts
from anarchon.backends.redis.keys import LAYOUT
from anarchon.backends.redis.scripts import Script
from anarchon.errors import ConfigurationError

_DAY = timedelta(days=1)
_MINUTE = timedelta(minutes=1)
#: What has an end stays for so long at least: a newer version of a job may give it more time.
_HOUR = timedelta(hours=1)

#: How many of the newest slots of a job tell who has them.
_ENTRIES = 100
#: The most that the server takes.
_IDS = 10_000


@dataclass(frozen=True, slots=True)
class Mode:
    """One way: ``commands`` are what its scripts call, ``extra`` are further arguments of a claim.

    ``key`` names the key of a job's claims, or of one claim where it ends in a colon. ``longest``
    bounds for how long after its slot a claim may win; ``since`` is the first Redis that can do
    it, where not all can; ``ends`` says that what is kept has an end.
    """

    name: str
    commands: tuple[str, ...]
    script: Script | None = field(default=None, repr=False)
    key: str = ""
    extra: tuple[int, ...] = ()
    longest: timedelta | None = None
    since: tuple[int, int] | None = None
    ends: bool = False

    @property
    def layout(self) -> str:
        """What a namespace is marked with that is used this way."""
        return str(LAYOUT) if self.script is None else f"{LAYOUT} {self.name}"

    def remembers(self, within: timedelta) -> timedelta | None:
        """Return for how long a claim is remembered; none: for ever."""
        if self.ends:
            return max(2 * within + _MINUTE, _HOUR)
        return self.longest


_OF_STREAMS = ("get", "set", "time", "xadd", "xdel", "xlen", "xrange", "xrevrange")

LEASE = Mode(
    "lease",
    (
        *("get", "set", "time"),
        *("hget", "hset", "hdel", "hexists", "hgetall"),
        *("zadd", "zrange", "zrem", "zscore"),
        *("lindex", "linsert", "lrange", "lrem", "rpush"),
    ),
)
SCRIPT = Mode("script", _OF_STREAMS, scripts.CLAIM_BY_KEY, "claim:", ends=True)
STREAM_ID = Mode("stream-id", _OF_STREAMS, scripts.CLAIM_BY_ID, "slots", extra=(_ENTRIES,))
IDMP = Mode(
    "idmp",
    (*_OF_STREAMS, "xcfgset"),
    scripts.CLAIM_BY_IDMP,
    "claims",
    extra=(_DAY // timedelta(seconds=1), _IDS, 10 * _ENTRIES),
    longest=_DAY,
    since=(8, 6),
)
MODES = {mode.name: mode for mode in (LEASE, SCRIPT, STREAM_ID, IDMP)}


def mode_named(name: str) -> Mode:
    """Return the mode of that name; raises ``ConfigurationError`` where there is none."""
    if name not in MODES:
        named = ", ".join(f"mode={each}" for each in MODES)
        raise ConfigurationError(
            f"Redis has no mode {name!r}",
            option="store",
            fix=f"write one of {named}, or leave it out for {LEASE.name}",
        )
    return MODES[name]
