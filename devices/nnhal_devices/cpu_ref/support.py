"""Operations that cpu_ref supports: those of the base set with a kernel, and those of nnhal.onnx and nnhal.tflite."""

from __future__ import annotations

from nnhal.extensions import tflite, type_in_words
from nnhal.extensions.onnx import NAME, RUN, number_of
from nnhal.kernels import KERNELS
from nnhal.resolved import ResolvedModel
from nnhal.support import SUPPORTED, OperationLimit, Support, Unsupported, limit_of
from nnhal.support.rules import first_objection
from nnhal.types import OperandLifeTime, Operation, OperationType
from nnhal.types.layout import is_extension
from nnhal_devices.cpu_ref import litert
from nnhal_devices.cpu_ref.control_flow import CONTROL_FLOW
from nnhal_devices.cpu_ref.extension import support_run


def operation_limits() -> list[OperationLimit]:
    """Return the operations that cpu_ref has: it takes each as the HAL defines it."""
    return [limit_of(code) for code in sorted({*KERNELS, *CONTROL_FLOW})]


def supported_operations(model: ResolvedModel) -> list[Support]:
    """An answer for each operation of the main subgraph."""
    graph, known = model.model.main, dict[int, Support]()
    return [_support(model, 0, operation, known) for operation in graph.operations]


def _support(model: ResolvedModel, subgraph: int, operation: Operation, known: dict[int, Support]) -> Support:
    graph = model.subgraphs[subgraph]
    if is_extension(operation.type):
        of_tflite = tflite.number_of(model.model, operation.type) == tflite.RUN
        if not of_tflite and number_of(model.model, operation.type) != RUN:
            expected = f"RUN of {NAME} or {tflite.NAME}"
            return Unsupported("OP", f"operation {type_in_words(model.model, operation.type)}", expected)
        message = model.constants[subgraph].get(operation.inputs[0]) if operation.inputs else None
        support = litert.support_run if of_tflite else support_run
        return support(message, graph, operation)
    if operation.type in CONTROL_FLOW:
        operands = [graph.operands[index] for index in operation.inputs]
        references = [o.location.offset for o in operands if o.lifetime == OperandLifeTime.SUBGRAPH]
        return first_objection([_support_of_all(model, number, known) for number in references])
    if operation.type not in KERNELS:
        return Unsupported("NO_IMPL", OperationType(operation.type).name, "an operation with a kernel")
    return SUPPORTED


def _support_of_all(model: ResolvedModel, number: int, known: dict[int, Support]) -> Support:
    """The answer for a referenced subgraph. ``known`` caches answers: a subgraph may be referenced many times."""
    if number not in known:
        graph = model.subgraphs[number + 1]
        found = first_objection([_support(model, number + 1, operation, known) for operation in graph.operations])
        if isinstance(found, Unsupported):
            found = found._replace(got=f"{found.got} in referenced subgraph {number}")
        known[number] = found
    return known[number]
