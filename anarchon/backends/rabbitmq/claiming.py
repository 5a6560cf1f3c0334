"""The decision of ``anarchon.claim_store``, by declarations of one queue.

A claim in time declares the queue outright: that makes it if it is not there, agrees if the claim
has it already, and else is refused, with the name of who has it. A passive look beforehand would
be cheaper for who loses, but could tell neither whose the queue is nor whether it is our own, of
a claim whose reply was lost.

A claim that may not start its slot declares what cannot be made, and so only compares.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from anarchon.backends.rabbitmq.link import Link
from anarchon.backends.rabbitmq.names import Mark, queue_name, remembered
from anarchon.backends.rabbitmq.refusals import Absent, Made, Taken
from anarchon.backends.rabbitmq.settings import Settings
from anarchon.claim_store import refused_at, won
from anarchon.clock import MILLISECOND
from anarchon.errors import StoreUnavailable
from anarchon.store import Claim, ClaimAnswer, Outcome

#: A queue that comes and goes between our questions does so once, when its time is over.
_TRIES = 4


def claim(
    link: Link, settings: Settings, namespace: str, asked: Claim, now: Callable[[], datetime]
) -> ClaimAnswer:
    """Ask for one slot, over a link that is connected. Raises ``StoreError``."""
    queue = queue_name(settings.vhost, namespace, asked.job, asked.slot)
    mark = Mark.of(asked.token, asked.instance)
    expires = ours = remembered(asked.within) // MILLISECOND
    only_looks = False
    for _ in range(_TRIES):
        # right before the question, and not once for a batch
        refused = refused_at(asked, now())
        said: Made | Absent | Taken
        if refused is None and not only_looks:
            said = link.make(queue, ours, mark)
        else:
            said = link.look(queue, expires)
        if isinstance(said, Made):
            return won(asked, asked.instance, asked.terms.lease)
        if isinstance(said, Absent):
            if refused is not None:
                return ClaimAnswer(refused)
            # it was there a moment ago
            only_looks, expires = False, ours
        elif said.mark is not None:
            return _of_holder(asked, mark, said.mark)
        elif said.expires is None and (refused is not None or only_looks):
            # not declared by us, whoever did it
            return ClaimAnswer(Outcome.DONE)
        else:
            only_looks, expires = True, said.expires or expires
    raise StoreUnavailable(settings.label, f"the queue {queue} comes and goes")


def _of_holder(asked: Claim, ours: Mark, holder: Mark) -> ClaimAnswer:
    if holder.token == ours.token:
        return won(asked, holder.instance or asked.instance, asked.terms.lease)
    return ClaimAnswer(Outcome.DONE, holder=holder.instance)
