"""The scripts, read from beside this file and made whole with the prelude."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha1
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Script:
    """A script and the name the server knows it by."""

    source: str = field(repr=False)
    sha: str


def _read(name: str, prelude: str = "prelude") -> Script:
    # the first line carries the flags: without one the server would start a script that it
    # then stops half-way, on a replica or when its memory is full
    flags, _, body = _text(name).partition("\n")
    return _made(f"{flags}\n{_text(prelude)}\n{body}")


def _made(source: str) -> Script:
    return Script(source, sha1(source.encode(), usedforsecurity=False).hexdigest())


def _text(name: str) -> str:
    return (files("anarchon.backends.redis") / f"{name}.lua").read_text("utf-8")


CLAIM = _read("claim")
RENEW = _read("renew")
MARK = _read("mark")
BEGIN = _read("begin")
FINISH = _read("finish")
RELEASE = _read("release")
REGISTER = _read("register")
HISTORY = _read("history")
PRUNE = _read("prune")
FORGET = _read("forget")
#: Asks about no job.
RIGHTS = _made(_text("rights"))

CLAIM_BY_KEY = _read("claim_script", "claim_prelude")
CLAIM_BY_ID = _read("claim_stream", "claim_prelude")
CLAIM_BY_IDMP = _read("claim_idmp", "claim_prelude")
CLAIM_SAVE = _made(_text("claim_save"))
CLAIM_HISTORY = _made(_text("claim_history"))

BY_SHA = {
    script.sha: script
    for script in (
        CLAIM,
        RENEW,
        MARK,
        BEGIN,
        FINISH,
        RELEASE,
        REGISTER,
        HISTORY,
        PRUNE,
        FORGET,
        RIGHTS,
        CLAIM_BY_KEY,
        CLAIM_BY_ID,
        CLAIM_BY_IDMP,
        CLAIM_SAVE,
        CLAIM_HISTORY,
    )
}
