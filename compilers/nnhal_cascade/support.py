"""Operations that ethos_u takes, and its reasons to refuse the others."""

from __future__ import annotations

from collections.abc import Iterator

from nnhal.operations import OperationContext
from nnhal.resolved import ResolvedModel, propagate_dimensions
from nnhal.support import SUPPORTED, OperationLimit, Support, Unsupported
from nnhal.support.npu import NpuSupport
from nnhal.support.rules import first_objection
from nnhal.types import OperationType
from nnhal_cascade.graph.islands import FloatIsland, float_islands
from nnhal_cascade.rules import RULES, windows
from nnhal_cascade.rules.limits import MAX_EXTENT
from nnhal_cascade.rules.vela import like_vela, tables_like_vela


def operation_limits() -> list[OperationLimit]:
    """Return what it takes of each operation that it has."""
    return _SUPPORT.operation_limits()


def supported_operations(model: ResolvedModel, only_like_vela: bool = False) -> list[Support]:
    """Return an answer for each operation of the main subgraph, and one for all of an island of floats.

    With ``only_like_vela`` what is beyond the report of Vela 5.2 is refused.
    """
    answers = _SUPPORT.supported_operations(model)
    if only_like_vela:
        dimensions = propagate_dimensions(model)
        for number, answer in enumerate(answers):
            if answer == SUPPORTED:
                answers[number] = like_vela(model.context(0, number, dimensions))
    for island in float_islands(model).values():
        answer = first_objection(_of_island(model, island, only_like_vela))
        for number in island.operations:
            answers[number] = answer
    return answers


def _of_island(model: ResolvedModel, island: FloatIsland, only_like_vela: bool) -> Iterator[Support]:
    """Check that the 8-bit tensors around an island are within the limits, and what it reduces."""
    dimensions = propagate_dimensions(model)
    (made,) = model.model.main.operations[island.operations[-1]].outputs
    for index in (*island.sources, made):
        yield from _SUPPORT.of_tensor(model.names.get(index) or f"operand {index}", dimensions[index])
    if island.reduces:
        yield windows.reduction(model.context(0, island.main, dimensions))
    if only_like_vela:
        yield like_vela(model.context(0, island.main, dimensions))
        operations = (model.model.main.operations[number] for number in island.operations)
        yield tables_like_vela(OperationType(operation.type) for operation in operations)


def _computed(op: OperationContext) -> Support:
    """Refuse operations on nothing but constants."""
    if not all(op.is_known(index) for index in RULES[op.type].tensors(op)):
        return SUPPORTED
    hint = "fold constants when the network is exported"
    return Unsupported("CONSTANT", "constants as the only inputs", "an input that is computed or fed", hint)


_SUPPORT = NpuSupport(
    "ethos_u",
    RULES,
    {
        OperationType.QUANTIZE: "its input is of floats: feed the network 8-bit values, or quantise on a CPU device",
        OperationType.DEQUANTIZE: "its output is of floats: read 8-bit values, or dequantise on a CPU device",
    },
    MAX_EXTENT,
    MAX_EXTENT,
    _computed,
)
