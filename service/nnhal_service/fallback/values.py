"""The values that pass between the steps of a plan, and to and from the client."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from nnhal.types import OperandType
from nnhal_service.fallback.edges import ALLOCATED, CLIENT, DEVICE_BUFFER, Edge, Side, client_kind, connect


class StepLike(Protocol):
    """A step of a plan: the device that runs it, and the operands that it reads and writes."""

    @property
    def device(self) -> str: ...

    @property
    def inputs(self) -> tuple[int, ...]:
        """Operands of the source model."""
        ...

    @property
    def outputs(self) -> tuple[int, ...]:
        """Operands of the source model."""
        ...


@dataclass(frozen=True, slots=True)
class PassedValue:
    """A value that passes between steps or to or from the client, with its edges."""

    operand: int
    size: int
    """Bytes."""
    writer: int | None
    """The step that writes it; None is the client."""
    first: int
    """The first step at which it lives."""
    last: int
    """The last step at which it lives."""
    destinations: tuple[int | None, ...]
    """The step that reads it, for each edge; None is the client."""
    edges: tuple[Edge, ...]
    is_ours: bool
    """True if the framework allocates its memory."""
    carried: int | None = None
    """The element type in which it passes, if that is not its own."""

    @property
    def kind(self) -> str:
        """The kind of memory that it lies in."""
        return self.edges[0].kind

    @property
    def is_kept(self) -> bool:
        """Return whether it stays in a buffer of the device that writes and reads it."""
        return self.kind == DEVICE_BUFFER

    @property
    def note(self) -> str:
        """Return what a reader of its edges should know of its type."""
        return "" if self.carried is None else f"; it passes as {OperandType(self.carried).name}"

    @property
    def needs_sync(self) -> bool:
        """Return whether its source has to make it visible to a reader."""
        return any(edge.sync for edge in self.edges)


PassedValues = Mapping[int, PassedValue]
"""By operand of the source model."""


def values_of(
    steps: Sequence[StepLike],
    sides: Mapping[str, Side],
    inputs: frozenset[int],
    outputs: frozenset[int],
    size_of: Callable[[int], int],
    carried: Mapping[int, int] = MappingProxyType({}),
    kind: str = "",
) -> PassedValues:
    """Return the values of a plan. ``inputs`` and ``outputs`` are the model's own, in the client's memory.

    That is of this ``kind``, by default the one of which devices copy the least.

    ``carried`` has the element types of values that pass in another type than their own; ``size_of`` knows them too.
    """
    written = {operand: number for number, step in enumerate(steps) for operand in step.outputs}
    readers: dict[int, list[int | None]] = {operand: [] for operand in (*inputs, *written)}
    for number, step in enumerate(steps):
        for operand in step.inputs:
            if operand in readers:
                readers[operand].append(number)
    for operand in outputs:
        if operand in readers:
            readers[operand].append(None)

    def side(step: int | None) -> Side:
        return CLIENT if step is None else sides[steps[step].device]

    ends = {operand: uses for operand, uses in readers.items() if uses and (operand in inputs or operand in outputs)}
    kind = kind or client_kind(
        (side(written.get(operand)), [side(step) for step in uses], size_of(operand)) for operand, uses in ends.items()
    )
    found = {}
    for operand, uses in readers.items():
        if not uses:
            continue
        is_ours = operand not in ends
        size, first = size_of(operand), written.get(operand)
        source, destinations = side(first), [side(step) for step in uses]
        if is_ours and size and source.keeps and all(other is source for other in destinations):
            kinds: tuple[str, ...] = (DEVICE_BUFFER,)
        else:
            kinds = ALLOCATED if is_ours else (kind,)
        edges = connect(source, destinations, size, kinds)
        last = max((step for step in uses if step is not None), default=first or 0)
        found[operand] = PassedValue(
            operand, size, first, first or 0, last, tuple(uses), tuple(edges), is_ours, carried.get(operand)
        )
    return found
