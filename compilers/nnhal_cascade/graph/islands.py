"""Floats between 8-bit tensors: DEQUANTIZE, operations in floats, QUANTIZE.

The HAL has no 8-bit form for an operation that changes the scale of a MEAN, or the type from signed to unsigned, and
others; so models have these islands. The NPU computes one as a whole: a function of one tensor's elements is a
table, one of two tensors' elements their pairs, and a reduction is one whose result is scaled.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from nnhal.operations.operand_types import QUANT8
from nnhal.resolved import ResolvedModel
from nnhal.types import OperandType, Operation, OperationType
from nnhal.types.layout import is_extension

PAIRED = frozenset(
    {OperationType.ADD, OperationType.MAXIMUM, OperationType.MINIMUM, OperationType.MUL, OperationType.SUB}
)
"""What the NPU computes of two tensors, element by element."""
UNARY = PAIRED | {
    OperationType.ABS,
    OperationType.DIV,
    OperationType.ELU,
    OperationType.EXP,
    OperationType.FLOOR,
    OperationType.HARD_SWISH,
    OperationType.LOG,
    OperationType.LOGISTIC,
    OperationType.NEG,
    OperationType.POW,
    OperationType.PRELU,
    OperationType.RELU,
    OperationType.RELU1,
    OperationType.RELU6,
    OperationType.RSQRT,
    OperationType.SIN,
    OperationType.SQRT,
    OperationType.TANH,
}
"""What a table has for one tensor, with constants of one element beside it."""
REDUCTIONS = frozenset(
    {OperationType.MEAN, OperationType.REDUCE_MAX, OperationType.REDUCE_MIN, OperationType.REDUCE_SUM}
)
"""What puts elements of one tensor together."""


@dataclass(frozen=True, slots=True)
class FloatIsland:
    """An island that the NPU computes as one part."""

    operations: tuple[int, ...]
    """In order: the last is QUANTIZE."""
    sources: tuple[int, ...]
    """The 8-bit operands that it reads, each once."""
    main: int
    """The operation that names the part: the reduction, or the last one before QUANTIZE; QUANTIZE if there is none."""
    reduces: bool
    """True if ``main`` is a reduction."""
    pairs: int
    """How many operations are of two tensors: 0 for a table."""


def float_islands(model: ResolvedModel) -> dict[int, FloatIsland]:
    """Return the islands of a model's main subgraph, by their last operation."""
    return _Islands(model).found()


class _Islands:
    def __init__(self, model: ResolvedModel) -> None:
        self._main, self._constants = model.model.main, model.constants[0]
        self._makers: dict[int, int] = {}
        self._readers: dict[int, set[int]] = defaultdict(set)
        for number, operation in enumerate(self._main.operations):
            self._makers.update(dict.fromkeys(operation.outputs, number))
            for index in operation.inputs:
                self._readers[index].add(number)

    def found(self) -> dict[int, FloatIsland]:
        islands = {}
        for number, operation in enumerate(self._main.operations):
            if operation.type == OperationType.QUANTIZE:
                island = self._before(number)
                if island is not None:
                    islands[number] = island
        return islands

    def _before(self, last: int) -> FloatIsland | None:
        """The island that ends with an operation, None if there is something in it that the NPU does not compute."""
        taken, waiting = {last}, [last]
        sources: dict[int, int] = {}
        while waiting:
            number = waiting.pop()
            operation = self._operation(number)
            for index in operation.inputs:
                if index in self._constants:
                    continue
                if operation.type == OperationType.DEQUANTIZE:
                    if self._main.operands[index].type not in QUANT8:
                        return None
                    sources[number] = index
                    continue
                maker = self._makers.get(index)
                if maker is None or not self._is_float(index) or not self._is_taken(maker):
                    return None
                if maker not in taken:
                    taken.add(maker)
                    waiting.append(maker)
        if not sources or not self._is_closed(taken, last):
            return None
        return self._island(sorted(taken), tuple(dict.fromkeys(sources[number] for number in sorted(sources))))

    def _is_float(self, index: int) -> bool:
        return self._main.operands[index].type == OperandType.TENSOR_FLOAT32

    def _is_taken(self, number: int) -> bool:
        kind = self._operation(number).type
        return not is_extension(kind) and kind in UNARY | REDUCTIONS | {OperationType.DEQUANTIZE}

    def _is_closed(self, taken: set[int], last: int) -> bool:
        """Return whether nothing else reads what is between the 8-bit tensors."""
        made = [index for number in taken - {last} for index in self._operation(number).outputs]
        return all(self._readers[index] <= taken and index not in self._main.output_indexes for index in made)

    def _island(self, numbers: list[int], sources: tuple[int, ...]) -> FloatIsland | None:
        computed = [n for n in numbers[:-1] if self._operation(n).type != OperationType.DEQUANTIZE]
        reductions = [n for n in computed if self._operation(n).type in REDUCTIONS]
        if len(sources) > 2 or len(reductions) > 1 or (reductions and len(sources) > 1):
            return None
        vectors = any(self._has_vector(n) for n in computed if n not in reductions)
        if len(sources) == 1 and not vectors:
            main = reductions[0] if reductions else (computed or numbers)[-1]
            return FloatIsland(tuple(numbers), sources, main, bool(reductions), 0)
        pairs = [n for n in computed if self._operation(n).type in PAIRED]
        if reductions or pairs != computed:
            return None
        return FloatIsland(tuple(numbers), sources, computed[-1], False, len(pairs))

    def _has_vector(self, number: int) -> bool:
        """Return whether an operation has a constant tensor of more than one element."""
        return any(
            index in self._constants and self._constants[index].size > 1 for index in self._operation(number).inputs
        )

    def _operation(self, number: int) -> Operation:
        return self._main.operations[number]


def inside(islands: Mapping[int, FloatIsland]) -> frozenset[int]:
    """Return the operations of islands without the last of each."""
    return frozenset(number for island in islands.values() for number in island.operations[:-1])
