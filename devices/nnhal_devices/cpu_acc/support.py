"""Operations that cpu_acc takes, and its reasons to refuse the others.

A lowering needs an operation's parameters and the rank of every tensor. An operation is declined if its lowering would
compute something else than the HAL defines, or if ONNX Runtime has no kernel for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.extensions import type_in_words
from nnhal.extensions.onnx import NAME
from nnhal.operations import DEFINITIONS, OperationContext, UnknownYet, type_name
from nnhal.resolved import ResolvedModel
from nnhal.support import SUPPORTED, OperationLimit, Support, Unsupported, types_of
from nnhal.support.rules import SupportRule, first_objection, walk
from nnhal.types import Operation, OperationType
from nnhal.types.layout import Dimensions, is_extension, is_scalar
from nnhal_devices.cpu_acc import branches
from nnhal_devices.cpu_acc.runs import supported
from nnhal_devices.cpu_acc.table import TABLE


def operation_limits() -> list[OperationLimit]:
    """Return what cpu_acc takes of each operation that it lowers."""
    rules = sorted((code, row.rule) for code, row in TABLE.items())
    limits = [rule.limit(code, f"{types_of(rule.types)} as input {rule.main}", "known ranks") for code, rule in rules]
    return [*limits, branches.LIMIT]


def supported_operations(model: ResolvedModel) -> list[Support]:
    """Return an answer for each operation of the main subgraph."""
    runs = supported(model)

    def other(number: int, operation: Operation) -> Support | None:
        if is_extension(operation.type):
            place = f"operation {type_in_words(model.model, operation.type)}"
            return runs.get(number, Unsupported("OP", place, f"RUN of {NAME}"))
        if branches.is_if(operation):
            return branches.support(model, operation, supported_operations)
        return None if operation.type in DEFINITIONS else _none_for(operation.type)

    return list(walk(model, _answer, other))


def _answer(op: OperationContext, _: Sequence[Dimensions], missing: str) -> Support:
    row = TABLE.get(op.type)
    if row is None:
        return _none_for(op.type)
    objection = first_objection((_typed(op, row.rule), _constant(op, row.rule), _ranked(op)))
    try:
        if objection == SUPPORTED:
            objection = row.rule.check(op)
    except UnknownYet as unknown:
        return _unknown(str(unknown))
    return _unknown(missing) if missing and objection == SUPPORTED else objection


def _none_for(code: int) -> Unsupported:
    return Unsupported("NO_IMPL", OperationType(code).name, "an operation that cpu_acc lowers")


def _unknown(what: str) -> Unsupported:
    return Unsupported("DYN_SHAPE", f"{what} is unknown before execution", "known dimensions")


def _typed(op: OperationContext, rule: SupportRule) -> Support:
    code = op.main_type(rule.main)
    if code in rule.types:
        return SUPPORTED
    return Unsupported("DTYPE", type_name(code), ", ".join(sorted(t.name for t in rule.types)))


def _constant(op: OperationContext, rule: SupportRule) -> Support:
    index = rule.variable(op)
    return (
        SUPPORTED if index is None else Unsupported("CONSTANT", f"{op.input_name(index)} is a variable", "a constant")
    )


def _ranked(op: OperationContext) -> Support:
    for index, operand in enumerate(op.inputs):
        if op.has(index) and not is_scalar(operand.type) and not op.dimensions(index):
            return Unsupported("DYN_SHAPE", f"{op.input_name(index)} is of unknown rank", "a known rank")
    return SUPPORTED
