"""Models whose images have their channels last.

The rule, for the main subgraph:

- Every operation whose layout input says NCHW reads and computes NHWC. Filters are the same for both layouts.
- Element-wise operations, and those that name axes, follow the layout that arrives: their parameters are rewritten.
  With several tensors the first with a known layout wins. The inputs of the model and constants have no known layout,
  so a chain of such operations before the first image operation stays as it is.
- All other operations, and the model's inputs and outputs, keep their dimensions: a TRANSPOSE stands between. One
  tensor has at most one for each layout, which all readers share. RESHAPE and FULLY_CONNECTED need none if only axes of
  length 1 would move.
- A TRANSPOSE of the model is only another name for the axes of what it reads, so it cancels with those that are added.
- Constants are transposed here and now.

Models without an NCHW operation stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from nnhal.layouts.behaviours import behaviour_of
from nnhal.layouts.decision import decide
from nnhal.layouts.emission import emit
from nnhal.layouts.layout_graph import Converts, Keeps, LayoutGraph, LayoutNode
from nnhal.layouts.schedule import schedule
from nnhal.resolved import ResolvedModel, propagate_dimensions
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions, is_extension

_CONTROL_FLOW = frozenset({OperationType.IF, OperationType.WHILE})


@dataclass(frozen=True, slots=True)
class ChannelsLast:
    """A model with its images in NHWC."""

    model: ResolvedModel
    """Has the same inputs and outputs, in the same order and with the same dimensions. Operands have other indexes."""
    origins: tuple[int | None, ...]
    """For each operation of the main subgraph the number that it has in the original; None for an added TRANSPOSE, or
    the RESHAPE before it that gives a tensor the rank of the one that it broadcasts with.
    """


def channels_last(model: ResolvedModel) -> ChannelsLast:
    """Return a valid model that computes the same with images in NHWC.

    Referenced subgraphs stay as they are. Raises HalError if dimensions contradict one another.
    """
    main = model.model.main
    dimensions = propagate_dimensions(model)
    nodes = [_node(model, number, dimensions) for number in range(len(main.operations))]
    if not any(isinstance(node.behaviour, Converts) for node in nodes):
        return ChannelsLast(model, tuple(range(len(nodes))))
    shapes = {index: known or None for index, known in enumerate(dimensions)}
    graph = LayoutGraph(nodes, main.output_indexes, shapes, model.constants[0].keys())
    decision = decide(graph)
    emitted = emit(model, dimensions, decision, schedule(graph, decision, fixed=main.output_indexes))
    values = model.model.operand_values + emitted.values
    return ChannelsLast(
        ResolvedModel(
            replace(model.model, main=emitted.subgraph, operand_values=values),
            (emitted.constants, *model.constants[1:]),
            emitted.names,
        ),
        emitted.origins,
    )


def _node(model: ResolvedModel, number: int, dimensions: tuple[Dimensions, ...]) -> LayoutNode[int]:
    operation = model.model.main.operations[number]
    if is_extension(operation.type) or operation.type in _CONTROL_FLOW:
        return LayoutNode(operation.inputs, operation.outputs, Keeps())
    return LayoutNode(operation.inputs, operation.outputs, behaviour_of(model.context(0, number, dimensions)))
