"""Lowering of whole models: each operation by its row of the table, RUN and IF in their own ways."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.resolved import ResolvedModel
from nnhal.types.layout import Dimensions
from nnhal_devices.cpu_acc.branches import choose, is_if
from nnhal_devices.cpu_acc.graph import LoweredGraph
from nnhal_devices.cpu_acc.lowering import extension
from nnhal_devices.cpu_acc.lowering.emitter import Emitter
from nnhal_devices.cpu_acc.messages import is_one_run, is_run, message_of, opsets_of
from nnhal_devices.cpu_acc.table import TABLE


def lower(model: ResolvedModel, dimensions: Sequence[Dimensions]) -> LoweredGraph:
    """Lower a model whose operations are all supported. ``dimensions`` are those of its operands."""
    graph = LoweredGraph(model, dimensions, opsets_of(model))
    if is_one_run(model.model):
        extension.run_alone(graph)
        return graph
    return _lowered(graph)


def _lowered(graph: LoweredGraph) -> LoweredGraph:
    model, known = graph.model, tuple(graph.dimensions)
    for operation in model.model.main.operations:
        if is_run(model.model, operation):
            graph.avoid(message_of(model, operation))
    for number, operation in enumerate(model.model.main.operations):
        if is_run(model.model, operation):
            extension.run(graph, operation, number)
            continue
        if is_if(operation):
            choose(graph, operation, number, _lowered)
            continue
        op = model.context(0, number, known, is_final=True)
        TABLE[op.type].lower(Emitter(op, operation, graph))
    graph.finish()
    return graph
