"""Rules about dimensions and parameters: what a model says of operands agrees with what operations make of them.

They need the values of the constants, and are checked as far as inputs and parameters are known before execution.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nnhal.errors import invalid_argument
from nnhal.resolved import ResolvedModel, describe_operation, propagate_dimensions
from nnhal.types import OperandLifeTime, Operation, OperationType, Subgraph
from nnhal.types.layout import Dimensions, combine, describe

_Ends = tuple[str, Sequence[Dimensions], Sequence[Dimensions]]
"""What two lists of dimensions are, the operation's and its subgraph's, which must fit each other."""


def validate_dimensions(resolved: ResolvedModel) -> None:
    """Refuse an operation that cannot take its inputs, or whose outputs have other dimensions than the model says.

    ``resolved`` is valid by ``validate_model``. Raises INVALID_ARGUMENT.
    """
    graphs = resolved.subgraphs
    known = [propagate_dimensions(resolved, number) for number in range(len(graphs))]
    for number, graph in enumerate(graphs):
        for index, operation in enumerate(graph.operations):
            if operation.type in (OperationType.IF, OperationType.WHILE):
                place = describe_operation(resolved.model, index, number)
                _subgraphs_fit(graphs, known, number, operation, place)


def _subgraphs_fit(
    graphs: Sequence[Subgraph], known: Sequence[Sequence[Dimensions]], number: int, operation: Operation, place: str
) -> None:
    for what, outer, inner in _ends(graphs, known, number, operation):
        for position, (ours, theirs) in enumerate(zip(outer, inner, strict=False)):
            if combine(ours, theirs) is None:
                invalid_argument(
                    f"{place}: {what}: number {position} has dimensions {describe(theirs)}, expected {describe(ours)}"
                )


def _ends(
    graphs: Sequence[Subgraph], known: Sequence[Sequence[Dimensions]], number: int, operation: Operation
) -> Iterator[_Ends]:
    """The dimensions of values that pass between an IF or WHILE and its subgraphs.

    A value may change its dimensions from one turn of a loop to the next, if its operands leave them unknown.
    """
    operands = graphs[number].operands
    inner = [operands[i].location.offset + 1 for i in operation.inputs if _refers(operands[i].lifetime)]
    values = [known[number][i] for i in operation.inputs[len(inner) + (operation.type == OperationType.IF) :]]
    made = [known[number][i] for i in operation.outputs]
    names = ("then branch", "else branch") if operation.type == OperationType.IF else ("condition", "body")
    for name, graph in zip(names, inner, strict=True):
        yield f"the inputs of its {name}", values, [known[graph][i] for i in graphs[graph].input_indexes]
        if name != "condition":
            yield f"the outputs of its {name}", made, [known[graph][i] for i in graphs[graph].output_indexes]


def _refers(lifetime: int) -> bool:
    return lifetime == OperandLifeTime.SUBGRAPH
