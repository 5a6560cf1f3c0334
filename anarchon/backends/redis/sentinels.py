"""Where the primary is: what most of the sentinels say that answer."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict

from redis.exceptions import AuthenticationError, RedisError

from anarchon.backends.redis.errors import translated
from anarchon.backends.redis.settings import Address, Settings
from anarchon.backends.redis.wire import exchange
from anarchon.clock import SystemClock
from anarchon.errors import StoreError, StoreRefused, StoreUnavailable

#: A sentinel that is well answers at once; one that is away must not use up a caller's deadline.
_PATIENCE = 1.0
#: What is left of that, for whoever is in a hurry, once one has named a primary.
_GRACE = 0.2


class Sentinels:
    """The sentinels of a service, all asked at once, and each time anew.

    redis-py believes whoever answers first. One sentinel that was cut off names the old primary,
    which may still take writes, until it hears of the new one.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def primary(self, *, hurry: bool = False) -> Address:
        """Return the primary's address; raises ``StoreUnavailable`` if nobody names one."""
        address, _ = await self.vote(until_most=True, hurry=hurry)
        return address

    async def vote(
        self, *, until_most: bool = False, hurry: bool = False
    ) -> tuple[Address, list[str]]:
        """Return the address that most name, and what is wrong with those that name none.

        ``until_most``: wait no longer than until most of all name one. ``hurry``: nor for those
        that say nothing for a moment when others have.
        """
        places = self._settings.places
        votes: Counter[Address] = Counter()
        silent: defaultdict[str, list[str]] = defaultdict(list)
        refused = True
        tasks = [asyncio.create_task(self._ask(place)) for place in places]
        left = set(tasks)
        try:
            while left:
                answered, left = await asyncio.wait(
                    left,
                    timeout=_GRACE if hurry and votes else None,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                for place, said in (task.result() for task in answered):
                    if isinstance(said, StoreError):
                        silent[said.problem].append(place)
                        refused &= isinstance(said, StoreRefused)
                    else:
                        votes[said] += 1
                if not answered or (
                    until_most and 2 * max(votes.values(), default=0) > len(places)
                ):
                    break
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        # whoever happened to answer first, the same problem is told in the same words
        problems = sorted(
            f"{', '.join(sorted(them))}: {problem}" for problem, them in silent.items()
        )
        if not votes:
            problem = f"no sentinel names a primary; {'; '.join(problems)}"
            kind = StoreRefused if refused else StoreUnavailable
            raise kind(self._settings.label, problem)
        return votes.most_common(1)[0][0], problems

    async def _ask(self, place: Address) -> tuple[str, Address | StoreError]:
        """Return who was asked, and the address it gave or why it gave none."""
        label = self._settings.label
        named = f"{place[0]}:{place[1]}"
        connection = self._settings.new_connection_to_sentinel(place)
        question = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._settings.service)
        try:
            async with SystemClock().timeout(_PATIENCE):
                with translated(self._settings, sent=False):
                    await connection.connect()  # type: ignore[no-untyped-call]
                    (answer,) = await exchange(connection, [question])
                    if isinstance(answer, RedisError):
                        raise answer
        except StoreUnavailable as error:
            hint = _hint(error.__cause__)
            kind = StoreRefused if hint else type(error)
            return named, kind(label, error.problem + hint)
        except TimeoutError:
            return named, StoreUnavailable(label, f"no answer within {_PATIENCE:.0f} s")
        finally:
            await connection.disconnect(nowait=True)
        if answer is None:
            problem = f"watches no service called {self._settings.service!r}"
            return named, StoreRefused(label, problem)
        host, port = answer
        return named, (host, int(port))


def _hint(error: BaseException | None) -> str:
    if isinstance(error, AuthenticationError):
        return "; give what it asks for as sentinel_password=… and sentinel_username=… in the URL"
    if "unknown command" in str(error).lower():
        return "; it is no sentinel: name the sentinels, or write redis://HOST:PORT for one server"
    return ""
