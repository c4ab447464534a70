"""IF: both branches become graphs of an ONNX If, which compute what the chosen one says in the same session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from nnhal.extensions import type_in_words
from nnhal.extensions.onnx import NAME
from nnhal.resolved import ResolvedModel, propagate_dimensions
from nnhal.support import SUPPORTED, OperationLimit, Support, Unsupported
from nnhal.types import Model, OperandLifeTime, OperandType, Operation, OperationType, Subgraph
from nnhal.types.layout import fully_specified, is_extension
from nnhal_devices.cpu_acc.elements import KEPT_TYPES
from nnhal_devices.cpu_acc.graph import LoweredGraph

_LIMIT = f"known dimensions; branches of operations that it takes, but for those of {NAME}"
LIMIT = OperationLimit(OperationType.IF, _LIMIT)
_ARGUMENTS = 3
"""The first input that is passed on: a condition and two graphs come before it."""
_MOST_OPERATIONS = 10_000
"""In both branches and all that are in these: a graph to which two IFs refer is lowered twice."""
_NAMES = ("then branch", "else branch")
_TYPES = "tensors and scalars of the HAL"


def is_if(operation: Operation) -> bool:
    """Return whether an operation chooses a graph."""
    return operation.type == OperationType.IF


def branches_of(model: ResolvedModel, operation: Operation) -> Iterator[ResolvedModel]:
    """Return the branches of an IF of main, each as a model of its own: then, else."""
    for index in operation.inputs[1:_ARGUMENTS]:
        number = model.model.main.operands[index].location.offset
        graph = model.model.referenced[number]
        yield ResolvedModel(replace(model.model, main=graph), (model.constants[1 + number], *model.constants[1:]))


def support(
    model: ResolvedModel, operation: Operation, answers_of: Callable[[ResolvedModel], Sequence[Support]]
) -> Support:
    """Answer for an IF of main. ``answers_of`` answers for the operations of a branch."""
    operands = model.model.main.operands
    for position in (0, *range(_ARGUMENTS, len(operation.inputs))):
        operand = operands[operation.inputs[position]]
        if operand.lifetime == OperandLifeTime.NO_VALUE:
            return Unsupported("NO_IMPL", f"input {position} is omitted", "inputs that are given")
        if operand.type not in KEPT_TYPES:
            return Unsupported("DTYPE", f"input {position} of {type_in_words(model.model, operand.type)}", _TYPES)
    if not _is_known(model.model.main, (*operation.inputs, *operation.outputs)):
        return Unsupported("DYN_SHAPE", "an input or output of unknown size", "known dimensions")
    if _operations_in(model.model, operation, {}) > _MOST_OPERATIONS:
        return Unsupported("NO_IMPL", f"branches of more than {_MOST_OPERATIONS} operations in all", "fewer")
    for name, branch in zip(_NAMES, branches_of(model, operation), strict=True):
        if not _is_known(branch.model.main, (*branch.model.main.input_indexes, *branch.model.main.output_indexes)):
            return Unsupported("DYN_SHAPE", f"an input or output of unknown size of the {name}", "known dimensions")
        for inner, answer in zip(branch.model.main.operations, answers_of(branch), strict=True):
            if is_extension(inner.type):
                return Unsupported("NO_IMPL", f"{type_in_words(model.model, inner.type)} in the {name}", "others there")
            if isinstance(answer, Unsupported):
                return answer._replace(got=f"{OperationType(inner.type).name} in the {name}: {answer.got}")
    return SUPPORTED


def choose(
    graph: LoweredGraph, operation: Operation, number: int, lower: Callable[[LoweredGraph], LoweredGraph]
) -> None:
    """Add an If for an IF of main. ``lower`` adds the operations of a branch to its graph."""
    graph.place = f"operation {number} (IF)"
    # What a branch reads has a name that nothing changes later.
    given = [graph.add("Identity", graph.kept(index)) for index in operation.inputs[_ARGUMENTS:]]
    branches = []
    for name, model in zip(("then", "else"), branches_of(graph.model, operation), strict=True):
        mark = f"{graph.mark}{name}{number}_"
        branch = LoweredGraph(model, propagate_dimensions(model), graph.opsets, mark)
        for index, tensor in zip(model.model.main.input_indexes, given, strict=True):
            branch.keep(index, tensor)
        branches.append(lower(branch))
    condition = graph.kept(operation.inputs[0])
    outputs = graph.add_many(
        "If", [condition], len(operation.outputs), then_branch=branches[0], else_branch=branches[1]
    )
    for index, tensor in zip(operation.outputs, outputs, strict=True):
        graph.keep(index, tensor)


def _operations_in(model: Model, operation: Operation, known: dict[int, int], main: Subgraph | None = None) -> int:
    """Return how many operations the branches of an IF become. ``known`` has those of graphs that were counted."""
    total = 0
    for index in operation.inputs[1:_ARGUMENTS]:
        number = (main or model.main).operands[index].location.offset
        if number not in known:
            graph = model.referenced[number]
            inner = sum(_operations_in(model, each, known, graph) for each in graph.operations if is_if(each))
            known[number] = len(graph.operations) + inner
        total += known[number]
    return total


def _is_known(graph: Subgraph, indexes: Sequence[int]) -> bool:
    operands = [graph.operands[index] for index in indexes]
    return all(o.type == OperandType.SUBGRAPH or fully_specified(o.type, o.dimensions) for o in operands)
