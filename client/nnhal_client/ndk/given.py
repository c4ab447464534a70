"""The arguments of one execution, as far as they are given."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.types import Operand, Subgraph
from nnhal_client.ndk.arguments import Argument, Buffer, UsableMemory, from_buffer, from_memory
from nnhal_client.ndk.result import NeuralNetworksError, ResultCode


class Given:
    """The inputs, or the outputs, of an execution. ``padded``: memory may be longer than what lies in it."""

    def __init__(self, graph: Subgraph, is_output: bool) -> None:
        self._is_output = is_output
        self._what = "output" if is_output else "input"
        self._operands = [graph.operands[i] for i in (graph.output_indexes if is_output else graph.input_indexes)]
        self._arguments: dict[int, Argument] = {}
        self.padded = False

    def operand(self, index: int) -> Operand:
        """What the model says of one. Raises BAD_DATA where there is none."""
        if not 0 <= index < len(self._operands):
            raise NeuralNetworksError(ResultCode.BAD_DATA, f"{self._what} {index} of {len(self._operands)}")
        return self._operands[index]

    def set_buffer(self, index: int, buffer: Buffer | None, given: Operand | None) -> None:
        """Give one in a buffer. Raises as ``from_buffer``."""
        operand, place = self.operand(index), f"{self._what} {index}"
        self._arguments[index] = from_buffer(operand, given, buffer, self.padded, self._is_output, place)

    def set_memory(self, index: int, memory: UsableMemory, offset: int, length: int, given: Operand | None) -> None:
        """Give one in memory. Raises as ``from_memory``."""
        operand, place = self.operand(index), f"{self._what} {index}"
        self._arguments[index] = from_memory(
            operand, given, memory, offset, length, self.padded, self._is_output, place
        )

    @property
    def missing(self) -> list[str]:
        """Those that are not given."""
        return [f"{self._what} {index}" for index in range(len(self._operands)) if index not in self._arguments]

    @property
    def all(self) -> Sequence[Argument]:
        """All of them, when none is missing."""
        return [self._arguments[index] for index in range(len(self._operands))]
