"""Operations that cpu_acc takes, and its reasons to refuse the others.

A lowering needs an operation's parameters and the rank of every tensor. An operation is declined if its lowering would
compute something else than the HAL defines, or if ONNX Runtime has no kernel for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.errors import HalError
from nnhal.extensions import type_in_words
from nnhal.extensions.onnx import NAME
from nnhal.operations import DEFINITIONS, OperationContext, UnknownYet, type_name
from nnhal.resolved import ResolvedModel
from nnhal.support import (
    MORE,
    SUPPORTED,
    OperationLimit,
    Support,
    Supported,
    Unsupported,
    constants_of,
    limit_of,
    types_of,
)
from nnhal.types.layout import Dimensions, combine, is_extension, is_scalar
from nnhal_devices.cpu_acc import branches
from nnhal_devices.cpu_acc.rules import RULES, LoweringRule
from nnhal_devices.cpu_acc.runs import supported


def operation_limits() -> list[OperationLimit]:
    """Return what cpu_acc takes of each operation that it lowers."""
    return [
        *(
            limit_of(
                code,
                f"{types_of(rule.types)} as input {rule.main}",
                "known ranks",
                constants_of(rule.constants),
                MORE if rule.has_check else "",
            )
            for code, rule in sorted(RULES.items())
        ),
        branches.LIMIT,
    ]


def supported_operations(model: ResolvedModel) -> list[Support]:
    """An answer for each operation of the main subgraph."""
    graph = model.model.main
    known = [operand.dimensions for operand in graph.operands]
    answers: list[Support] = []
    runs = supported(model)
    for number, operation in enumerate(graph.operations):
        if is_extension(operation.type):
            place = f"operation {type_in_words(model.model, operation.type)}"
            answers.append(runs.get(number, Unsupported("OP", place, f"RUN of {NAME}")))
            continue
        if branches.is_if(operation):
            answers.append(branches.support(model, operation, supported_operations))
            continue
        answer, found = _support(model.context(0, number, known, is_final=True))
        answers.append(answer)
        for index, dimensions in zip(operation.outputs, found, strict=False):
            known[index] = combine(known[index], dimensions) or known[index]
    return answers


def _support(op: OperationContext) -> tuple[Support, Sequence[Dimensions]]:
    """The answer for one operation, and its outputs' dimensions as far as they are known."""
    definition, rule = DEFINITIONS.get(op.type), RULES.get(op.type)
    found: Sequence[Dimensions] = ()
    unknown = ""
    if definition is not None:
        try:
            found = definition.prepared(op)
        except HalError as error:
            return Unsupported("OP", error.message, "a valid operation"), found
        except UnknownYet as missing:
            unknown = str(missing)
    if rule is None:
        return Unsupported("NO_IMPL", op.type.name, "an operation that cpu_acc lowers"), found
    objection = _objection(op, rule)
    if unknown and isinstance(objection, Supported):
        objection = _unknown(unknown)
    return objection, found


def _objection(op: OperationContext, rule: LoweringRule) -> Support:
    """The first objection to an operation, if any."""
    for answer in (_typed(op, rule), _constant(op, rule), _ranked(op)):
        if isinstance(answer, Unsupported):
            return answer
    try:
        return rule.check(op)
    except UnknownYet as unknown:
        return _unknown(str(unknown))


def _unknown(what: str) -> Unsupported:
    return Unsupported("DYN_SHAPE", f"{what} is unknown before execution", "known dimensions")


def _typed(op: OperationContext, rule: LoweringRule) -> Support:
    code = op.main_type(rule.main)
    if code in rule.types:
        return SUPPORTED
    return Unsupported("DTYPE", type_name(code), ", ".join(sorted(t.name for t in rule.types)))


def _constant(op: OperationContext, rule: LoweringRule) -> Support:
    for index, operand in enumerate(op.inputs):
        parameter = index in rule.constants or is_scalar(operand.type)
        if parameter and op.has(index) and not op.is_known(index):
            return Unsupported("CONSTANT", f"{op.input_name(index)} is a variable", "a constant")
    return SUPPORTED


def _ranked(op: OperationContext) -> Support:
    for index, operand in enumerate(op.inputs):
        if op.has(index) and not is_scalar(operand.type) and not op.dimensions(index):
            return Unsupported("DYN_SHAPE", f"{op.input_name(index)} is of unknown rank", "a known rank")
    return SUPPORTED
