"""Device buffers: allocating them, and copying into them and out of them."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan, prod

import numpy as np

from nnhal.types import BufferRole, ErrorStatus
from nnhal.types.layout import ELEMENT_TYPES
from nnhal_conformance.graph import I32
from nnhal_tools.stress.actor import Actor
from nnhal_tools.stress.allocation import new_buffer, some_buffer
from nnhal_tools.stress.memory import KINDS, BlockKind, create_block
from nnhal_tools.stress.outcomes import FAILURE, INVALID, OK, REFUSED, Statuses, ask, require
from nnhal_tools.stress.specimens import whole_numbers

_SIZES = (1, 2, 4, 4, 5)


def allocate(actor: Actor) -> ErrorStatus:
    """Allocate a buffer with roles of one or several prepared models."""
    require(new_buffer(actor).remote.token > 0, "a token of 0 or less")
    return ErrorStatus.NONE


def allocate_invalid(actor: Actor) -> ErrorStatus:
    """Allocate a buffer with invalid roles or dimensions."""
    actor.require_buffers()
    prepared = actor.some_prepared()
    remote, inputs = prepared.remote, len(prepared.specimen.inputs)
    role = BufferRole(0, 0)
    calls: dict[str, tuple[Sequence[object], Sequence[BufferRole], Sequence[BufferRole], Sequence[int]]] = {
        "no models": ((), (role,), (), ()),
        "no roles": ((remote,), (), (), ()),
        "no such model": ((remote,), (BufferRole(1, 0),), (), ()),
        "a negative model": ((remote,), (BufferRole(-1, 0),), (), ()),
        "no such input": ((remote,), (BufferRole(0, inputs),), (), ()),
        "no such output": ((remote,), (), (BufferRole(0, 1),), ()),
        "probability 0": ((remote,), (BufferRole(0, 0, 0.0),), (), ()),
        "probability 2": ((remote,), (BufferRole(0, 0, 2.0),), (), ()),
        "probability NaN": ((remote,), (BufferRole(0, 0, nan),), (), ()),
        "a role twice": ((remote,), (role, role), (), ()),
        "a role twice by two indexes": ((remote, remote), (role, BufferRole(1, 0)), (), ()),
        "another rank": ((remote,), (role,), (), (1, 2, 3, 4, 5, 6)),
        "other dimensions": ((remote,), (role,), (), (77,) * len(prepared.specimen.inputs[0].dimensions)),
        "negative dimensions": ((remote,), (role,), (), (-1,) * len(prepared.specimen.inputs[0].dimensions)),
    }
    name = actor.random.choice(list(calls))
    actor.note(f"{prepared.specimen.name}, {name}")
    models, of_inputs, of_outputs, dimensions = calls[name]
    own = [remote for _ in models]
    return ask(lambda: actor.device.allocate(own, of_inputs, of_outputs, dimensions), REFUSED).status


def copy_in(actor: Actor) -> ErrorStatus:
    """Fill a buffer with valid values from memory of any kind."""
    buffer = some_buffer(actor)
    shape = buffer.shape(actor.random.choice(_SIZES))
    values = whole_numbers(actor.random, buffer.code, shape)
    if buffer.code == I32:
        values %= 6  # mostly within the table of a lookup
    said = shape if buffer.is_open or actor.perhaps(0.5) else ()
    block = create_block(values.nbytes, actor.random.choice(KINDS), actor.random)
    block.write(0, values.reshape(-1).view(np.uint8))
    memory = block.read_only() if block.kind is BlockKind.OPEN_FILE and actor.perhaps(0.5) else block.memory
    actor.note(f"buffer {buffer.remote.token}, {block.kind.value}, {shape} said as {said}")
    answer = ask(lambda: buffer.remote.copy_from(memory, said))
    if answer:
        buffer.became(values)
    else:
        buffer.refused()
    buffer.raced = buffer.users > 0
    return answer.status


def copy_in_invalid(actor: Actor) -> ErrorStatus:
    """Copy in with a wrong size, wrong dimensions or a truncated file. The buffer's content is lost."""
    buffer = some_buffer(actor)
    shape = buffer.shape(4)
    size = ELEMENT_TYPES[buffer.code].itemsize * prod(shape)
    wrong: dict[str, tuple[int, tuple[int, ...], Statuses]] = {
        "too short": (size - 1 or 1, shape, INVALID),
        "too long": (size + 4, shape, INVALID),
        "another rank": (size, (*shape, 1), INVALID),
        "an open axis": (size, (0, *shape[1:]), INVALID),
        "a negative axis": (size, (-1, *shape[1:]), INVALID),
        "truncated": (size, shape, REFUSED),
    }
    if buffer.is_open:
        wrong["no dimensions"] = (size, (), INVALID)
    name = actor.random.choice(list(wrong))
    length, said, allowed = wrong[name]
    block = create_block(
        length, BlockKind.OPEN_FILE if name == "truncated" else actor.random.choice(KINDS), actor.random
    )
    if name == "truncated":
        block.truncate()
    actor.note(f"buffer {buffer.remote.token}, {name}")
    answer = ask(lambda: buffer.remote.copy_from(block.memory, said), allowed)
    if answer.status in allowed:
        buffer.spoiled()
    else:
        buffer.refused()
    buffer.raced = buffer.users > 0
    return answer.status


def copy_out(actor: Actor) -> ErrorStatus:
    """Copy a buffer out and check that it has what was last written to it."""
    filled = [buffer for buffer in actor.buffers if buffer.content is not None]
    buffer = actor.random.choice(filled) if filled and actor.perhaps(0.6) else some_buffer(actor)
    shape = buffer.content.shape if buffer.content is not None else buffer.shape(4)
    kind = actor.random.choice(KINDS)
    wrong = actor.perhaps(0.15)
    size = ELEMENT_TYPES[buffer.code].itemsize * prod(shape) + (4 if wrong else 0)
    block = create_block(size, kind, actor.random)
    block.write(0, np.full(size, 0xA5, np.uint8))
    allowed = buffer.readable()
    # The size of a buffer of unknown dimensions is unknown while it is uninitialised.
    if wrong:
        allowed = INVALID if not buffer.is_open or allowed == OK else REFUSED
    elif buffer.is_open and allowed != OK:
        allowed = allowed | INVALID
    if buffer.wild or buffer.users:
        allowed = allowed | REFUSED if wrong else allowed | OK | REFUSED
    read_only = kind is BlockKind.OPEN_FILE and actor.perhaps(0.2)
    actor.note(f"buffer {buffer.remote.token}, {kind.value}, {size} bytes {'read-only' if read_only else ''}")
    if read_only:
        memory, allowed = block.read_only(), (allowed - OK) | FAILURE
    else:
        memory = block.memory
    answer = ask(lambda: buffer.remote.copy_to(memory), allowed)
    if answer and not buffer.wild and not buffer.users:
        assert buffer.content is not None
        got = buffer.array(block.read(), shape)
        require(bool(np.array_equal(got, buffer.content)), f"buffer {buffer.remote.token}: {got}, not {buffer.content}")
        buffer.doubt = False
    return answer.status
