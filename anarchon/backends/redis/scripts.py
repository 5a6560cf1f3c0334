"""The scripts, read from beside this file and made whole with the prelude."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from hashlib import sha1
from importlib.resources import files

#: Names, and the numbers that are given to them.
_NUMBERS = re.compile(r"^local ([A-Z_,\s]+?)\s=\s+(\d[\d,\s]*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    """A script and the name the server knows it by."""

    source: str = field(repr=False)
    sha: str


def _read(name: str, prelude: str = "prelude") -> Script:
    # the first line carries the flags: without one the server would start a script that it
    # then stops half-way, on a replica or when its memory is full
    flags, _, body = _text(name).partition("\n")
    return _made(f"{flags}\n{_with_numbers(_with_called(_text(prelude), body))}")


def _with_called(prelude: str, body: str) -> str:
    """Put the prelude in front, but for the functions that nobody calls."""
    # a function costs whenever the script that has it runs, for it is made anew
    for part in reversed(prelude.split("\n\n")):
        function = re.search(r"^local function (\w+)", part, re.MULTILINE)
        if function is None or re.search(rf"\b{function[1]}\(", body):
            body = f"{part}\n\n{body}"
    return body


def _with_numbers(source: str) -> str:
    """Write numbers for the names that are given to numbers."""
    # each function would have to be given each name that it uses, whenever it is made
    numbers: dict[str, str] = {}
    for names, values in _NUMBERS.findall(source):
        numbers.update(zip(_words(names), _words(values), strict=True))
    if not numbers:
        return source
    used = re.compile(rf"\b(?:{'|'.join(numbers)})\b")
    return used.sub(lambda name: numbers[name[0]], _NUMBERS.sub("", source))


def _words(listed: str) -> list[str]:
    return re.findall(r"\w+", listed)


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
