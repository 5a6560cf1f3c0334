"""One file, several processes: their locks are others than those between threads."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from collections import Counter
from datetime import timedelta

from anarchon.clock import to_millis
from anarchon_contract.leases.questions import Asker

CONTENDER = """
import asyncio, json, random, sys
from datetime import timedelta
from anarchon.backends import open_backend
from anarchon.clock import from_millis
from anarchon.run import RunState
from anarchon.store import Finish, Outcome
from anarchon_contract.leases.questions import claim_of

async def main(url, number, first):
    store = open_backend(url).connect("default")
    won = []
    slots = [from_millis(first + 1000 * count) for count in range(300)]
    random.Random(number).shuffle(slots)
    print("ready", flush=True)
    sys.stdin.readline()
    for start in range(0, len(slots), 3):
        for slot in slots[start : start + 3]:
            claims = [
                claim_of(slot, f"{number}", job=job, within=timedelta(days=9))
                for job in ("a", "b")
            ]
            reply = await store.claim(claims)
            mine = [
                claim
                for claim, answer in zip(claims, reply.answers)
                if answer.outcome is Outcome.WON
            ]
            ended = [Finish(c.job, c.slot, c.token, RunState.SUCCESS) for c in mine]
            assert all((await store.finish(ended)).answers)
            won += [f"{c.job} {slot}" for c in mine]
    await store.close()
    print(json.dumps(won))

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


async def test_of_several_processes_one_wins_a_slot(store, other):
    """G1, G2"""
    ask = Asker(store)
    for job in ("a", "b"):
        await ask.register(job=job)
    other.execute("update anarchon_job set floor = 0")
    first = to_millis(await ask.time() - timedelta(days=1))

    contenders = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", CONTENDER, store.label, str(number), str(first)),
            stdin=PIPE,
            stdout=PIPE,
        )
        for number in range(3)
    ]
    for contender in contenders:
        assert contender.stdout is not None
        assert await contender.stdout.readline() == b"ready\n"
    outputs = await asyncio.gather(*(contender.communicate(b"go\n") for contender in contenders))
    assert [contender.returncode for contender in contenders] == [0, 0, 0]
    wins = Counter(slot for output, _ in outputs for slot in json.loads(output))

    assert set(wins.values()) == {1}
    # a slot that only ever heard of an overlap has no winner
    assert len(wins) > 300
    history = await ask.history("a", "b", limit=2000)
    assert Counter(f"{a.job} {a.slot}" for a in history if a.attempt) == wins
