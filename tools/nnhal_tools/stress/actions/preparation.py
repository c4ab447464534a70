"""Preparing models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

from nnhal.remote import CompilationCache, RemotePreparedModel
from nnhal.types import ErrorStatus, ExecutionPreference, Priority, TokenValuePair
from nnhal_tools.stress import wire
from nnhal_tools.stress.actor import MOST, Actor
from nnhal_tools.stress.broken import break_model
from nnhal_tools.stress.buffers import PreparedSpecimen
from nnhal_tools.stress.faults import draw_deadline
from nnhal_tools.stress.memory import BlockKind, block_of
from nnhal_tools.stress.outcomes import INVALID, OK, REFUSED, ask


def prepare(actor: Actor) -> ErrorStatus:
    """Prepare a valid model with either method, and any preference, priority and deadline."""
    specimen = actor.random.choice(actor.specimens)
    deadline = draw_deadline(actor.random)
    preference, priority = actor.random.choice(list(ExecutionPreference)), actor.random.choice(list(Priority))
    older = actor.prepared and actor.perhaps(0.3)
    actor.note(f"{specimen.name}, {deadline}, {preference.name}, {priority.name}, {'older' if older else ''}")
    allowed = deadline.after(OK if actor.supports(specimen) else OK | REFUSED)

    def call() -> RemotePreparedModel:
        if older:
            return wire.prepare(actor.prepared[0].remote.calls, specimen.model, deadline.ns)
        return actor.device.prepare_model(specimen.model, preference, priority, deadline.ns)

    answer = ask(call, allowed)
    if answer:
        actor.keep(actor.prepared, PreparedSpecimen(specimen, answer.value), MOST["prepared"])
    return answer.status


def prepare_invalid(actor: Actor) -> ErrorStatus:
    """Prepare an invalid model, or a valid one with another invalid argument."""
    device, model = actor.device, actor.random.choice(actor.specimens).model
    what, broken = break_model(model, actor.random)
    hints = [TokenValuePair(3 << 16, b"")]
    short = CompilationCache(token=bytes(31))
    calls: dict[str, Callable[[], RemotePreparedModel]] = {
        what: lambda: device.prepare_model(broken),
        "preference 3": lambda: device.prepare_model(model, preference=cast(ExecutionPreference, 3)),
        "priority -1": lambda: device.prepare_model(model, priority=cast(Priority, -1)),
        "deadline -2": lambda: device.prepare_model(model, deadline_ns=-2),
        "a hint of no extension": lambda: device.prepare_model(model, hints=hints),
        "a token of 31 bytes": lambda: device.prepare_model(model, cache=short),
        "from a cache with a token of 31 bytes": lambda: device.prepare_model_from_cache(short),
        "from a cache with deadline -2": lambda: device.prepare_model_from_cache(CompilationCache(), -2),
    }
    name = what if actor.perhaps(0.5) else actor.random.choice(list(calls))
    actor.note(name)
    return ask(calls[name], INVALID).status


def prepare_without_constants(actor: Actor) -> ErrorStatus:
    """Prepare a model whose constants lie in a truncated file."""
    specimen = actor.random.choice([s for s in actor.specimens if s.model.pools])
    block = block_of(bytes(4096), BlockKind.OPEN_FILE, actor.random)
    model = replace(specimen.model, pools=(block.memory,))
    actor.note(specimen.name)
    block.truncate()
    return ask(lambda: actor.device.prepare_model(model), REFUSED).status
