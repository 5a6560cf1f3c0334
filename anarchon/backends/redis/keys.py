"""The names of everything kept on the server.

They never change within a layout: a renamed key is a forgotten job, whose slots run again.

Every key of a job lies under one hash tag, so that a script may touch all of them on one
node. The two keys of a namespace lie outside: no script names them.
"""

from __future__ import annotations

#: Goes up with every change that an older version of this package could not read.
LAYOUT = 1

_ESCAPES = str.maketrans({"%": "%25", "{": "%7B", "}": "%7D"})


class Keys:
    """The keys of one namespace."""

    def __init__(self, namespace: str) -> None:
        # a colon in it would let namespace and job be cut in two places
        escaped = namespace.translate(_ESCAPES).replace(":", "%3A")
        self.layout = f"anarchon:{escaped}:layout"
        self.jobs = f"anarchon:{escaped}:jobs"
        """A sorted set of job names; none has an unfinished run of a slot before its score."""
        self._tag = f"anarchon:{{{escaped}:"

    def of_job(self, job: str) -> tuple[str, str, str, str]:
        """Return the keys of a job in the order in which every script takes them."""
        tag = self._tag_of(job)
        return tag + "record", tag + "runs", tag + "open", tag + "order"

    def of_claim(self, job: str, claim: str) -> tuple[str, str]:
        """Return the key of a job's claims and that of its history, where there are no leases."""
        tag = self._tag_of(job)
        return tag + claim, tag + "history"

    def _tag_of(self, job: str) -> str:
        # braces in a name would end the tag early, or leave the key without one
        return f"{self._tag}{job.translate(_ESCAPES)}}}:"
