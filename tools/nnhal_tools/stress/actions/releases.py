"""Releasing objects in any order, and using them afterwards."""

from __future__ import annotations

from nnhal.types import ErrorStatus
from nnhal_tools.stress.actor import Actor
from nnhal_tools.stress.outcomes import INVALID, ask


def release(actor: Actor) -> ErrorStatus:
    """Release any object: what was made from a prepared model works without it."""
    things = [*actor.prepared, *actor.buffers, *actor.executions, *actor.bursts]
    if things:
        thing = actor.random.choice(things)
        actor.note(type(thing).__name__)
        actor.release(thing)
    return ErrorStatus.NONE


def use_after_release(actor: Actor) -> ErrorStatus:
    """Use a released object, which the device must not know."""
    if not actor.released:
        return release(actor)
    call = actor.random.choice(actor.released)
    actor.note(call)
    return ask(call, INVALID).status
