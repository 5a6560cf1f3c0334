"""What a random program may ask: small pools, so that its questions meet each other.

Nothing drawn here depends on what a store answered: a slot or a run is named by its place,
and looked up when the question is asked. So a program stays the same program while
hypothesis makes it shorter.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, get_args

from hypothesis import strategies as st

from anarchon.run import Overlap, RunState
from anarchon.store import FINGERPRINT_MEMORY, RETENTION, Mode
from anarchon_contract.leases.test_names import ODD

MS = timedelta(milliseconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)

JOBS = 3
#: The last one is not registered when a program begins.
UNMET = JOBS - 1


Verb = Literal[
    "start",
    "catch up",
    "look",
    "hold",
    "lapse",
    "near",
    "renew",
    "begin",
    "mark",
    "retry",
    "finish",
    "release",
    "prune",
]


@dataclass(frozen=True)
class Near:
    """A slot so far from the job's floor, from now, or from the slot claimed last."""

    what: Literal["floor", "now", "last"]
    by: timedelta


@dataclass(frozen=True)
class Asked:
    """A claim; token 0 is a new one, and ``after`` is how far from the newest slot."""

    job: int
    slot: timedelta | Near
    token: int
    mode: Mode = Mode.SCHEDULED
    lease: timedelta = HOUR
    overlap: Overlap = Overlap.SKIP
    max_attempts: int = 3
    begins_as: RunState = RunState.RUNNING
    start_within: timedelta | None = None
    within: timedelta = 400 * DAY
    after: timedelta | None = None
    instance: str = "web-1"


@dataclass(frozen=True)
class Of:
    """A run by its place among those unfinished, or among all, and one of its tokens or another."""

    nth: int
    job: int
    all: bool = False
    token: int | Literal["own", "spent"] = "own"


@dataclass(frozen=True)
class Move:
    """A step in the life of a job's runs; ``way`` is one of the three ways to take it.

    ``slot`` is its place in ``SLOTS``, or for a tracked run that among the unfinished ones.
    """

    verb: Verb
    slot: int
    way: int
    tracked: bool = False


@dataclass(frozen=True)
class Waits:
    """A mark that a run waits; ``nonce`` as of a beginning, ``retry`` counts from the run's."""

    nonce: str | None
    retry: int
    delay: timedelta


@dataclass(frozen=True)
class Edge:
    """A moment from which on something is decided otherwise, by its place among those to come."""

    nth: int
    by: timedelta


job = st.sampled_from((0, 0, 0, 1, UNMET))
around = st.sampled_from((timedelta(0), MS, -MS))
few = st.sampled_from((0, 0, 0, 1, 2))
space = st.sampled_from((0, 0, 0, 0, 1))
connection = st.integers(0, 1)

SLOTS = (
    -MINUTE,
    -2 * MINUTE,
    -3 * MINUTE,
    timedelta(0),
    -MS,
    MS,
    MINUTE,
    HOUR,
    -HOUR,
    -DAY,
    -RETENTION,
    -RETENTION - MS,
    -RETENTION - DAY,
    RETENTION,
)
slot = (
    st.sampled_from(SLOTS)
    | st.sampled_from(SLOTS[:3])
    | st.builds(
        Near,
        st.sampled_from(("last", "floor", "now")),
        st.sampled_from((-MS, timedelta(0), MS, MINUTE)),
    )
)

#: Tokens are what instances make up; some are used again, by others and for other slots.
token = st.sampled_from((0, 0, 0, 1, 2))
instance = st.sampled_from(("web-1", "web-2", *ODD.values()))
lease = st.sampled_from((HOUR, HOUR, 2 * MINUTE, MS, 90 * DAY))
within = st.sampled_from(
    (400 * DAY, 400 * DAY, 2 * MINUTE, timedelta(0), MS, 1.5 * MS, MINUTE, RETENTION, timedelta.max)
)

claim = st.builds(
    Asked,
    job=job,
    slot=slot,
    token=token,
    mode=st.sampled_from((Mode.SCHEDULED, Mode.SCHEDULED, Mode.CATCH_UP, Mode.TAKEOVER)),
    lease=lease,
    overlap=st.sampled_from(Overlap),
    max_attempts=st.integers(1, 3),
    begins_as=st.sampled_from((RunState.RUNNING, RunState.CLAIMED)),
    start_within=st.sampled_from((None, None, HOUR, 90 * DAY, 2 * MINUTE, MS)),
    within=within,
    after=st.sampled_from((None, None, None, timedelta(0), timedelta(0), MS, -MS)),
    instance=instance,
)
claims = st.lists(claim, min_size=1, max_size=JOBS, unique_by=lambda asked: asked.job)

of = st.builds(Of, st.integers(0, 3), job) | st.builds(
    Of, st.integers(0, 5), job, st.booleans(), st.sampled_from(("own", "spent", 1, 2))
)
some = st.lists(of, min_size=1, max_size=4)

#: Those of deliveries; "own" is that of who runs it.
nonce = st.sampled_from(("own", "n1", "n2", ODD["quotes"]))
nonce_or_none = st.sampled_from(("own", "own", None, "n1"))
retry = st.sampled_from((0, 0, 1, 1, 2, -1))
holder = st.sampled_from(("own", "pod-1", "pod-2", *ODD.values()))
holder_or_none = st.sampled_from(("own", "own", None, "pod-1"))
delay = st.sampled_from((timedelta(0), MS, 1.5 * MS, HOUR))
waits = st.builds(Waits, nonce_or_none, st.sampled_from((1, 1, 2, 0)), delay)

ended = st.sampled_from((RunState.SUCCESS, RunState.FAILED, RunState.PUBLISHED))
#: As the engine cuts and cleans them.
detail = (
    st.none()
    | st.sampled_from(("", "said", "é" * 2000, *ODD.values()))
    | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
)

fingerprint = st.sampled_from(("v1", "v2", "v3", "seen:v1", ODD["quotes"], ODD["unicode"]))
registrations = st.lists(st.tuples(job, fingerprint), min_size=1, max_size=4)

keep = st.sampled_from((0, 1, 2, 3, 1000))
spare = st.sampled_from(
    (timedelta(0), timedelta(0), MS, 1.5 * MS, 2 * MINUTE, HOUR, RETENTION + DAY)
)
prunes = st.lists(st.tuples(job, keep, spare), min_size=1, max_size=JOBS)

limit = st.sampled_from((1000, 0, 1, 2, 3, 5))
age = st.sampled_from((FINGERPRINT_MEMORY / 2 + MINUTE, FINGERPRINT_MEMORY))

ticks = st.sampled_from(
    (MS, 0.4 * MS, MINUTE, MINUTE, HOUR, FINGERPRINT_MEMORY, DAY, RETENTION, -MINUTE)
)
edge = st.builds(Edge, st.integers(0, 5), st.sampled_from((timedelta(0), MS, -MS, 0.9 * MS)))

moves = st.lists(
    st.sampled_from(
        [
            Move(verb, slot, way)
            for verb in (*get_args(Verb), "start", "look", "lapse")
            for slot in range(3)
            for way in range(3)
        ]
    ),
    min_size=8,
    max_size=24,
)

_TRACKED_VERBS: tuple[Verb, ...] = (
    *("start", "start", "start", "look", "hold", "lapse", "near", "near", "renew"),
    *("begin", "begin", "begin", "mark", "mark", "retry", "finish", "release"),
)
#: The same for published runs that are followed to their end.
tracked_moves = st.lists(
    st.sampled_from(
        [
            Move(verb, slot, way, tracked=True)
            for verb in _TRACKED_VERBS
            for slot in (0, 0, 1)
            for way in range(3)
        ]
    ),
    min_size=8,
    max_size=24,
)

#: Names that end a key, a quotation or a pattern early, and any that a job may have.
names = st.lists(
    st.sampled_from(("a", "b", "c"))
    | st.sampled_from(tuple(ODD.values()))
    | st.text(st.characters(codec="utf-8"), min_size=1, max_size=200).filter(str.isprintable),
    min_size=JOBS,
    max_size=JOBS,
    unique=True,
)
