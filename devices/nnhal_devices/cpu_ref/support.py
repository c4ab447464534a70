"""Which operations cpu_ref takes: all of the base set that have a kernel."""

from __future__ import annotations

from nnhal.resolved import ResolvedModel
from nnhal.types import Model, OperandLifeTime, Operation, OperationType, Subgraph
from nnhal.types.layout import is_extension
from nnhal_devices.cpu_ref.control_flow import CONTROL_FLOW
from nnhal_devices.cpu_ref.kernels import KERNELS
from nnhal_devices.driver import SUPPORTED, Support, Unsupported


def supported_operations(model: ResolvedModel) -> list[Support]:
    """An answer for each operation of the main subgraph."""
    graph, known = model.model.main, dict[int, Support]()
    return [_support(model.model, graph, operation, known) for operation in graph.operations]


def _support(model: Model, graph: Subgraph, operation: Operation, known: dict[int, Support]) -> Support:
    if is_extension(operation.type):
        return Unsupported("OP", f"operation {operation.type:#x} of an extension", "operations of the base set")
    if operation.type in CONTROL_FLOW:
        operands = [graph.operands[index] for index in operation.inputs]
        references = [o.location.offset for o in operands if o.lifetime == OperandLifeTime.SUBGRAPH]
        return _first_objection([_support_of_all(model, number, known) for number in references])
    if operation.type not in KERNELS:
        return Unsupported("NO_IMPL", OperationType(operation.type).name, "an operation with a kernel")
    return SUPPORTED


def _support_of_all(model: Model, number: int, known: dict[int, Support]) -> Support:
    """The answer for a referenced subgraph. ``known`` collects them, since a subgraph may be referred to many times."""
    if number not in known:
        graph = model.referenced[number]
        found = _first_objection([_support(model, graph, operation, known) for operation in graph.operations])
        if isinstance(found, Unsupported):
            found = found._replace(got=f"{found.got} in referenced subgraph {number}")
        known[number] = found
    return known[number]


def _first_objection(answers: list[Support]) -> Support:
    return next((answer for answer in answers if isinstance(answer, Unsupported)), SUPPORTED)
