"""Forms in which arguments of a run are sent: the layout of an execution on the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnhal.arrays import Bytes
from nnhal.errors import general_failure
from nnhal.types.layout import Dimensions
from nnhal.v1 import wire_pb2 as wire
from nnhal_devices.driver import Argument
from nnhal_devices.remote.kept_memory import KeptMemory


@dataclass(frozen=True, slots=True)
class ArgumentLayout:
    """One argument, without its memory on this host: equal layouts can use the same execution on the device."""

    is_omitted: bool
    dimensions: Dimensions
    length: int
    buffer: int
    """Its buffer on the device; 0 if its bytes are sent."""
    element_bytes: int

    def to_wire(self) -> wire.BoundArgument:
        """The message."""
        return wire.BoundArgument(
            has_no_value=self.is_omitted,
            dimensions=() if self.is_omitted else self.dimensions,
            length=self.length,
            buffer=self.buffer,
            element_bytes=self.element_bytes,
        )


@dataclass(frozen=True, slots=True)
class RunLayout:
    """The arguments of a run."""

    inputs: tuple[ArgumentLayout, ...]
    outputs: tuple[ArgumentLayout, ...]
    loop_timeout_ns: int

    @property
    def has_buffers(self) -> bool:
        """Return whether values stay on the device."""
        return any(argument.buffer for argument in (*self.inputs, *self.outputs))


class BoundPlaces:
    """Arguments as they are bound: their layouts, and the places on this host of those that are sent."""

    def __init__(
        self, arguments: Sequence[Argument], element_bytes: Sequence[int], kept: KeptMemory, what: str
    ) -> None:
        """Raises GENERAL_FAILURE if an input is empty, which cannot be said to the device."""
        self.layouts: list[ArgumentLayout] = []
        self.sent: list[Bytes] = []
        for number, (argument, size) in enumerate(zip(arguments, element_bytes, strict=True)):
            data = argument.data
            if data is None:
                self.layouts.append(ArgumentLayout(True, (), 0, 0, 0))
                continue
            if what == "input" and not len(data):
                general_failure(f"input {number} has no elements: a device on another host takes none without")
            buffer = kept.find(data) if len(data) else 0
            # An output that has no memory yet has a byte there: it never fits, and the device says how large it is.
            self.layouts.append(ArgumentLayout(False, argument.dimensions, max(len(data), 1), buffer, size))
            if not buffer:
                self.sent.append(data)

    @property
    def sent_bytes(self) -> int:
        return sum(map(len, self.sent))
