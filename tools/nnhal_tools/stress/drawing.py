"""Script of a stress run, drawn from its seed before anything runs.

So no answer, no time and no other client has any part in the sequence of actions.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from random import Random

from nnhal_tools.stress.actions import ACTIONS, SHARED_ACTIONS
from nnhal_tools.stress.script import Act, ClientScript, SessionEnding

_THREADS = (2, 3)
_STEPS = (20, 400)
_KILLED = 0.5
"""The share of sessions that are killed, if they live for so long."""
_ENDINGS = (SessionEnding.RELEASE, SessionEnding.RELEASE, SessionEnding.CLOSE, SessionEnding.EXIT)
_OWN = 0.85
"""Probability that a thread uses objects of its own."""
_NAMES, _SHARED_NAMES = list(ACTIONS), list(SHARED_ACTIONS)
_WEIGHTS = [weight for weight, _ in ACTIONS.values()]
_SHARED_WEIGHTS = [weight for weight, _ in SHARED_ACTIONS.values()]


def draw_clients(seed: int) -> Iterator[ClientScript]:
    """Draw the clients of a run, one after another, without an end."""
    return (draw_client(seed, number) for number in itertools.count())


def draw_client(seed: int, number: int) -> ClientScript:
    """Draw one client of a run by its number."""
    random = Random(f"{seed}/{number}")
    of_client, steps = random.getrandbits(48), random.randint(*_STEPS)
    threads = [
        tuple(_draw_act(of_thread) for _ in range(steps))
        for of_thread in (Random(f"{seed}/{number}/{thread}") for thread in range(random.choice(_THREADS)))
    ]
    killed, ending = random.random() < _KILLED, random.choice(_ENDINGS)
    if killed:
        lived = int(steps ** random.random())  # mostly short, so that some die in short runs on busy machines too
        threads[0] = (*threads[0][:lived], Act(SessionEnding.KILL.value, 0))
    elif ending is not SessionEnding.RELEASE:
        threads[0] = (*threads[0], Act(ending.value, 0))
    return ClientScript(number, of_client, tuple(threads))


def _draw_act(random: Random) -> Act:
    own = random.random() < _OWN
    (name,) = random.choices(_NAMES, _WEIGHTS) if own else random.choices(_SHARED_NAMES, _SHARED_WEIGHTS)
    return Act(name, random.getrandbits(32))
