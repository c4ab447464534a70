"""Command streams as text.

One line for each command: what it does, to what, with which operands, and behind a semicolon what it comes to in bytes.
Intervals are shown with their first and last element, and axes that are whole are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatchmethod
from itertools import zip_longest
from typing import NamedTuple

from nnhal_cascade.geometry.box import Axis, Box, Interval, Shape
from nnhal_cascade.plans.plan import WeightsIn
from nnhal_cascade.stream.commands import (
    AllocateConstants,
    AllocateTensor,
    BeginPlan,
    Command,
    CommandStream,
    CopyConstants,
    LoadInput,
    PartSymbol,
    ReleaseConstants,
    ReleaseTensor,
    Roll,
    RunStripe,
    StoreOutput,
    TensorSymbol,
)


def disassemble(stream: CommandStream) -> str:
    """Return a stream as lines of text, with aligned columns."""
    arenas = ", ".join(f"{size} bytes of {name}" for name, size in stream.arenas)
    title = f"; {len(stream.commands)} commands for the graph {stream.digest.hex()}, in {arenas or 'no memory'}"
    describe = _Describer(stream)
    lines = [describe.line(command) for command in stream.commands]
    widths = [max(map(len, column)) for column in zip_longest(*(line.cells for line in lines), fillvalue="")]
    rows = ["  ".join(map(str.ljust, line.cells, widths)).rstrip() for line in lines]
    margin = max((len(row) for row, line in zip(rows, lines, strict=True) if line.comment), default=0)
    commented = (
        f"{row:{margin}}  ; {line.comment}" if line.comment else row for row, line in zip(rows, lines, strict=True)
    )
    return "\n".join([title, *commented]) + "\n"


class _Line(NamedTuple):
    """A command: what it does, to what, and its operands; and a comment."""

    cells: tuple[str, ...]
    comment: str = ""


class _Describer:
    """Knows the names in a stream. An index that the stream has no name for is shown as a number."""

    def __init__(self, stream: CommandStream) -> None:
        self._tensors = stream.tensors
        self._parts = stream.parts

    @singledispatchmethod
    def line(self, command: Command) -> _Line:
        """Return the columns of a command."""
        raise TypeError(f"{command!r} is no command")

    @line.register
    def _(self, command: BeginPlan) -> _Line:
        return _Line(("plan", str(command.plan)))

    @line.register
    def _(self, command: AllocateTensor) -> _Line:
        tensor, extents = self._tensor(command.tensor), command.extents
        rolls = " and ".join(_plural(axis) for axis in Axis if extents[axis] < tensor.shape[axis])
        return _Line(
            ("allocate", tensor.name, f"{command.region}[{command.address:#08x}]", _sizes(extents)),
            f"{extents.elements * tensor.element_bytes} bytes" + (f", {rolls} roll" if rolls else ""),
        )

    @line.register
    def _(self, command: AllocateConstants) -> _Line:
        name, place = f"constants of {self._part(command.part).name}", f"{command.region}[{command.address:#08x}]"
        return _Line(
            ("allocate", name, place, f"{command.slots} x {command.bytes}"),
            f"{command.slots * command.bytes} bytes",
        )

    @line.register
    def _(self, command: LoadInput) -> _Line:
        tensor = self._tensor(command.tensor)
        return _Line(("load", tensor.name), f"{tensor.shape.elements * tensor.element_bytes} bytes")

    @line.register
    def _(self, command: StoreOutput) -> _Line:
        tensor = self._tensor(command.tensor)
        return _Line(("store", tensor.name), f"{tensor.shape.elements * tensor.element_bytes} bytes")

    @line.register
    def _(self, command: CopyConstants) -> _Line:
        part = self._part(command.part)
        channels = _interval(Axis.CHANNELS, command.channels)
        return _Line(
            ("copy", f"constants of {part.name}", channels, f"-> slot {command.slot}"),
            f"{part.channel_bytes * command.channels.length} bytes",
        )

    @line.register
    def _(self, command: RunStripe) -> _Line:
        part = self._part(command.part)
        output = self._tensor(part.output)
        sources = (self._tensor(index) for index in part.inputs)
        inputs = ", ".join(
            f"{tensor.name}[{_part_of(box, tensor.shape)}]"
            for tensor, box in zip(sources, command.inputs, strict=False)
        )
        place = f"in slot {command.slot}" if command.weights == WeightsIn.DOUBLE_BUFFERED else command.weights
        weights = "" if command.weights == WeightsIn.NONE else f"weights {place}"
        made = _part_of(command.output, output.shape, totals=True)
        return _Line(
            ("run", part.name, made, f"<- {inputs or 'the client'}", weights),
            f"{command.output.shape.elements * output.element_bytes} bytes",
        )

    @line.register
    def _(self, command: Roll) -> _Line:
        return _Line(("roll", self._tensor(command.tensor).name, _interval(command.axis, command.dead)))

    @line.register
    def _(self, command: ReleaseTensor) -> _Line:
        return _Line(("release", self._tensor(command.tensor).name))

    @line.register
    def _(self, command: ReleaseConstants) -> _Line:
        return _Line(("release", f"constants of {self._part(command.part).name}"))

    def _tensor(self, index: int) -> TensorSymbol:
        if index < len(self._tensors):
            return self._tensors[index]
        return TensorSymbol(f"tensor {index}", Shape(0, 0, 0), 1)

    def _part(self, index: int) -> PartSymbol:
        return self._parts[index] if index < len(self._parts) else PartSymbol(f"part {index}", 0, (), 0)


def _plural(axis: Axis) -> str:
    return axis.name.lower()


def _sizes(extents: Sequence[int]) -> str:
    return " x ".join(str(extent) for extent in extents)


def _interval(axis: Axis, interval: Interval) -> str:
    if interval.length == 0:
        return f"no {_plural(axis)}"
    if interval.length == 1:
        return f"{_plural(axis)[:-1]} {interval.start}"
    return f"{_plural(axis)} {interval.start}..{interval.stop - 1}"


def _part_of(box: Box, shape: Shape, totals: bool = False) -> str:
    """The axes of a box that are not whole."""
    cut = [axis for axis in Axis if tuple(box[axis]) != (0, shape[axis])]
    shown = (_interval(axis, box[axis]) + (f" of {shape[axis]}" if totals else "") for axis in cut)
    return ", ".join(shown) or "all"
