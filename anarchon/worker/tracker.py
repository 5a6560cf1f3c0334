"""What one process of a worker tells the store of the runs whose messages it was given.

Every question is asked until it is answered, as ``anarchon.asking`` does; here nothing says
how long anybody waits for that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from anarchon.asking import Asking
from anarchon.clock import Clock, SystemClock
from anarchon.message import PublishedRun
from anarchon.run import RunState
from anarchon.store import Backend, Begin, Finish, Renewal, Waiting
from anarchon.worker.errands import Errand, Errands


@dataclass(frozen=True, slots=True)
class Delivery:
    """One delivery of the message of a tracked run.

    ``retry`` is the broker's number of it, 0 first; ``nonce`` was made for this delivery and
    no other; ``message`` is the broker's name for the message.
    """

    run: PublishedRun
    retry: int
    nonce: str
    message: str

    @property
    def lease(self) -> timedelta:
        """How long the run is this worker's without a renewal."""
        assert self.run.lease is not None, "only tracked runs are asked about"
        return self.run.lease

    @property
    def heartbeat(self) -> timedelta:
        """How often its lease is renewed, and how long a call about it may take."""
        return self.lease / 3


class Tracker:
    """Asks one store about deliveries, from any thread or greenlet of this process.

    ``holder`` names the worker; all of its processes say the same. After a fork the child has
    a connection of its own.
    """

    def __init__(
        self, backend: Backend, namespace: str, holder: str, clock: Clock | None = None
    ) -> None:
        self._holder = holder
        self._clock = clock or SystemClock()
        self._errands = Errands(lambda: backend.connect(namespace), self._clock)

    def begin(self, delivery: Delivery) -> Errand[bool]:
        """Ask whether the work of a delivery may start."""
        run = delivery.run
        asked = Begin(
            run.job,
            run.slot,
            run.token,
            delivery.retry,
            delivery.nonce,
            self._holder,
            delivery.message,
        )

        async def ask(asking: Asking) -> bool:
            deadline = delivery.heartbeat.total_seconds()
            return (await asking.begin(asked, deadline=deadline, give_up=_never)).answer

        return self._errands.send(Errand(ask))

    def finish(
        self,
        delivery: Delivery,
        state: RunState,
        detail: str | None = None,
        *,
        begun: Errand[bool] | None = None,
    ) -> Errand[bool]:
        """Record how the work of a delivery ended; false if the run is another's by now.

        ``begun`` is the question whether it may start, if that is still without an answer.
        """

        async def ask(asking: Asking) -> bool:
            if begun is not None and not await begun.answered():
                return False
            return await _finish(asking, delivery, state, detail)

        return self._errands.send(Errand(ask))

    def finish_after(
        self, seconds: float, delivery: Delivery, detail: str, on_time: Callable[[], object]
    ) -> Errand[bool]:
        """Record a failure once that much time has passed; for pools that can end no task.

        Taken back when the work ends in time.
        """

        async def ask(asking: Asking) -> bool:
            await self._clock.sleep(seconds)
            on_time()
            return await _finish(asking, delivery, RunState.FAILED, detail)

        return self._errands.send(Errand(ask))

    def wait_for_retry(
        self,
        delivery: Delivery,
        retry: int,
        delay: timedelta,
        *,
        begun: Errand[bool] | None = None,
    ) -> Errand[bool]:
        """Note that the message of a retry was sent; false is fine, it may have been faster."""
        run = delivery.run
        waiting = Waiting(delivery.nonce, retry, delay)
        asked = Renewal(run.job, run.slot, run.token, waiting=waiting)

        async def ask(asking: Asking) -> bool:
            if begun is not None and not await begun.answered():
                return False
            deadline = delivery.heartbeat.total_seconds()
            return (await asking.mark(asked, deadline=deadline, give_up=_never)).answer

        return self._errands.send(Errand(ask))

    def close(self, seconds: float) -> None:
        """Let go of the store when all is said, or after so many seconds."""
        self._errands.close(seconds)


def _never() -> bool:
    # whoever has enough of it takes the errand back
    return False


async def _finish(asking: Asking, delivery: Delivery, state: RunState, detail: str | None) -> bool:
    run = delivery.run
    asked = Finish(run.job, run.slot, run.token, state, detail, delivery.nonce)
    deadline = delivery.heartbeat.total_seconds()
    return (await asking.finish(asked, deadline=deadline, give_up=_never)).answer
