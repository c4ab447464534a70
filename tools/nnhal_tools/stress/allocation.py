"""Allocating device buffers with compatible roles."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.types import BufferRole
from nnhal.types.layout import combine
from nnhal_tools.stress.actor import MOST, Actor
from nnhal_tools.stress.buffers import HeldBuffer, PreparedSpecimen
from nnhal_tools.stress.outcomes import ask

_ROLE = 0.7
"""Probability that a buffer gets a role that it may have."""


def new_buffer(actor: Actor, needed: PreparedSpecimen | None = None, positions: Sequence[int] = ()) -> HeldBuffer:
    """Allocate a device buffer with the given roles, or a random one, and others.

    Raises Unavailable, and NotOffered if the device has no buffers.
    """
    actor.require_buffers()
    prepared = needed or actor.some_prepared()
    wanted = positions or [actor.random.randrange(len(prepared.specimen.inputs) + 1)]
    operand = prepared.specimen.operand(wanted[0])
    roles, dimensions = {(prepared, position): None for position in wanted}, operand.dimensions
    for other in actor.prepared:
        for at in range(len(other.specimen.inputs) + 1):
            like = other.specimen.operand(at)
            both = combine(dimensions, like.dimensions)
            if like.type == operand.type and both is not None and actor.perhaps(_ROLE):
                roles[other, at], dimensions = None, both
    models = list(dict.fromkeys(held for held, _ in roles))
    inputs: list[BufferRole] = []
    outputs: list[BufferRole] = []
    for held, at in roles:
        writes, probability = at == len(held.specimen.inputs), actor.random.uniform(0.1, 1)
        (outputs if writes else inputs).append(BufferRole(models.index(held), 0 if writes else at, probability))
    said = dimensions if actor.perhaps(0.5) else ()
    actor.note(f"{[held.specimen.name for held in models]}, inputs {inputs}, outputs {outputs}, {said}")
    remotes = [held.remote for held in models]
    remote = actor.get(ask(lambda: actor.device.allocate(remotes, inputs, outputs, said)))
    buffer = HeldBuffer(remote, operand.type, dimensions, roles)
    actor.keep(actor.buffers, buffer, MOST["buffers"])
    return buffer


def some_buffer(actor: Actor) -> HeldBuffer:
    """Choose a device buffer, or allocate one. Raises Unavailable."""
    return actor.some(actor.buffers, lambda: new_buffer(actor))
