"""A store in a libSQL server (sqld, Turso), over its HTTP pipeline.

The rules run here, in Python, and no transaction of the server's waits for them: an interactive
one would hold the only write lock for up to five seconds, and a frozen client with it. So a
call is two requests, each one batch of statements that the server runs by itself.

1. *The look*, a read transaction: the records that the rules need, each job with its
   *revision*, and the server's time. Whoever loses is answered by it, and writes nothing.
2. *The write*, where anything changed: begin, give every changed job a new revision *if it
   still has the one that was read*, write what belongs to the jobs that got it, commit. A job
   that somebody else wrote in between is left alone, and its questions are asked anew, from
   the look on, for as long as the caller waits. Somebody got ahead each time that happens.

So each job is decided in one atomic step, as if all of it had come about when it was looked at:
nobody has written it since. But *when* is decided by the time of the look, and the write comes
later. What may that break?

- Of two writes to one job, the later one looked after the earlier one was there. Their times
  never go backwards, and a lease that lapsed between its renewal's look and write is set anew
  only if nobody took it over. A lease counts from the look, so it ends early and never late.
- Somebody who writes nothing may look in between. Who looks for a takeover sees a lapsed lease
  and writes, so one of the two has to ask anew. But ``late`` may be told of a slot that another
  one wins by a look in time, and ``busy`` of a lease may be out of date, as every answer may
  be that was on its way for as long.
- A write that was held up for long, by a frozen client or on the way, would grant a lease that
  is over, or start what is late. So it does nothing once the server's clock shows more than
  ``FRESH`` past the look, or less than the look did, and everything is asked anew.

A reply that was lost costs nothing: under the same token the next look finds what was
written. The look carries a write that is never run, so that a replica hands it on to its
primary: its own copy may lag behind, and its clock is another.

Synchronous to a disk is what the server decides. What it acknowledged outlives a crash of it.
"""

from __future__ import annotations

from anarchon.backends.libsql.examining import examine
from anarchon.backends.libsql.settings import Settings
from anarchon.backends.libsql.store import LibSQLStore
from anarchon.standing import Standing


class LibSQLBackend:
    """A store in a database of a libSQL server.

    Raises ``ConfigurationError`` for a URL that cannot be used.
    """

    def __init__(self, url: str) -> None:
        self._settings = Settings.of(url)

    @classmethod
    def from_url(cls, url: str) -> LibSQLBackend:
        """Return the backend for a URL that says everything."""
        return cls(url)

    def __repr__(self) -> str:
        return f"<LibSQLBackend: {self.label}>"

    @property
    def label(self) -> str:
        return self._settings.label

    async def examine(self, namespace: str) -> Standing:
        return await examine(self._settings)

    def connect(self, namespace: str) -> LibSQLStore:
        return LibSQLStore(self._settings, namespace)


__all__ = ["LibSQLBackend", "LibSQLStore"]
