"""Constants that are added to a model: their bytes go behind those that it has."""

from __future__ import annotations

from dataclasses import replace

from nnhal.arrays import Array
from nnhal.memory.arena import round_up
from nnhal.types import DataLocation, Operand, OperandLifeTime

_ALIGNMENT = 64
"""The alignment of constants, in bytes."""


class InlineConstants:
    """Bytes to be appended to a model's operand values."""

    def __init__(self, start: int) -> None:
        """``start`` is the number of bytes that the model has already."""
        self._start = start
        self._values = bytearray()

    @property
    def values(self) -> bytes:
        return bytes(self._values)

    def add(self, like: Operand, value: Array) -> Operand:
        """Add an array, which becomes read-only; return its operand, of the type of another one."""
        value.flags.writeable = False
        end = self._start + len(self._values)
        start = round_up(end, _ALIGNMENT)
        self._values.extend(bytes(start - end) + value.tobytes())
        location = DataLocation(0, start, value.nbytes)
        return replace(like, dimensions=value.shape, lifetime=OperandLifeTime.CONSTANT_COPY, location=location)
