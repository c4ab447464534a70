"""Which operations cpu_acc takes, and why not the others.

A lowering needs to know an operation's parameters and the rank of every tensor. Where it would compute something else
than the HAL asks for, or something that ONNX Runtime has no kernel for, the operation is declined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nnhal.errors import HalError
from nnhal.operations import (
    DEFINITIONS,
    OperationContext,
    UnknownYet,
    conv_2d,
    depthwise_conv_2d,
    mean,
    pad,
    pooling,
    reshape,
    type_name,
)
from nnhal.operations._types import F16, F32, I32, Q8A, Q8AS, Q8C, Q8S
from nnhal.operations._window import SAME, Window
from nnhal.resolved import ResolvedModel
from nnhal.types import OperandType, OperationType
from nnhal.types.layout import Dimensions, combine, describe, is_extension, is_scalar
from nnhal_devices.cpu_acc.lowering import LOWERINGS
from nnhal_devices.driver import SUPPORTED, Support, Supported, Unsupported

_FLOATS = frozenset({F32, F16})
_QUANT8 = frozenset({Q8A, Q8AS})
_MAIN = _FLOATS | _QUANT8


def _anything(_: OperationContext) -> Support:
    return SUPPORTED


@dataclass(frozen=True, slots=True)
class Rule:
    """What is asked of an operation: ``types`` of its first tensor, ``constants`` among its tensors, and a check."""

    types: frozenset[OperandType] = _MAIN
    constants: tuple[int, ...] = ()
    check: Callable[[OperationContext], Support] = _anything


def supported_operations(model: ResolvedModel) -> list[Support]:
    """An answer for each operation of the main subgraph."""
    graph = model.model.main
    known = [operand.dimensions for operand in graph.operands]
    answers: list[Support] = []
    for number, operation in enumerate(graph.operations):
        if is_extension(operation.type):
            answers.append(Unsupported("OP", f"operation {operation.type:#x} of an extension", "the base set"))
            continue
        op = model.context(0, number, tuple(known))
        answer, found = _support(op)
        answers.append(answer)
        for index, dimensions in zip(operation.outputs, found, strict=False):
            known[index] = combine(known[index], dimensions) or known[index]
    return answers


def _support(op: OperationContext) -> tuple[Support, Sequence[Dimensions]]:
    """The answer for one operation, and what is known of its outputs' dimensions."""
    rule = RULES.get(op.type)
    if rule is None:
        return Unsupported("NO_IMPL", op.type.name, "an operation that cpu_acc lowers"), _dimensions(op)
    try:
        found = DEFINITIONS[op.type].prepare(op)
    except HalError as error:
        return Unsupported("OP", error.message, "a valid operation"), ()
    except UnknownYet as unknown:
        return _unknown(op, rule, str(unknown)), ()
    return _first_objection(op, rule), found


def _dimensions(op: OperationContext) -> Sequence[Dimensions]:
    definition = DEFINITIONS.get(op.type)
    try:
        return definition.prepare(op) if definition else ()
    except (HalError, UnknownYet):
        return ()


def _unknown(op: OperationContext, rule: Rule, what: str) -> Support:
    objection = _first_objection(op, rule)
    if isinstance(objection, Unsupported):
        return objection
    return Unsupported("DYN_SHAPE", f"{what} is unknown before execution", "known dimensions")


def _first_objection(op: OperationContext, rule: Rule) -> Support:
    for answer in (_typed(op, rule), _constant(op, rule), _ranked(op)):
        if not isinstance(answer, Supported):
            return answer
    try:
        return rule.check(op)
    except UnknownYet as unknown:
        return Unsupported("DYN_SHAPE", f"{unknown} is unknown before execution", "known dimensions")


def _typed(op: OperationContext, rule: Rule) -> Support:
    if op.main_type() in rule.types:
        return SUPPORTED
    return Unsupported("DTYPE", type_name(op.main_type()), ", ".join(sorted(t.name for t in rule.types)))


def _constant(op: OperationContext, rule: Rule) -> Support:
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


def _images(window_of: Callable[[OperationContext], Window]) -> Callable[[OperationContext], Support]:
    def check(op: OperationContext) -> Support:
        window, given = window_of(op), op.dimensions(0)
        height, width = (2, 3) if window.channels_first else (1, 2)
        if window.scheme == SAME and 0 in (given[height], given[width]):
            return Unsupported("DYN_SHAPE", describe(given), "a known height and width", "padding SAME depends on them")
        return SUPPORTED

    return check


def _pooling(op: OperationContext) -> Support:
    window = pooling.window_of(op)
    for axis in (window.height, window.width):
        if max(axis.before, axis.after) >= axis.size:
            got = f"paddings {axis.before} and {axis.after} of a window of {axis.size}"
            return Unsupported("KERNEL", got, "paddings that are smaller than the window")
    return _images(pooling.window_of)(op)


def _reshape(op: OperationContext) -> Support:
    shape = op.integers(reshape.Input.SHAPE)
    if 0 in shape:
        return Unsupported("SHAPE", f"shape {list(shape)}", "lengths above 0, of which one may be -1")
    return SUPPORTED


RULES: dict[OperationType, Rule] = {
    OperationType.ADD: Rule(_MAIN | {I32}),
    OperationType.AVERAGE_POOL_2D: Rule(check=_pooling),
    OperationType.CONCATENATION: Rule(),
    OperationType.CONV_2D: Rule(check=_images(conv_2d.window_of)),
    OperationType.DEPTHWISE_CONV_2D: Rule(check=_images(depthwise_conv_2d.window_of)),
    OperationType.DEQUANTIZE: Rule(_QUANT8 | {Q8S, Q8C}),
    OperationType.DIV: Rule(_FLOATS),
    OperationType.FULLY_CONNECTED: Rule(),
    OperationType.L2_POOL_2D: Rule(_FLOATS, check=_pooling),
    OperationType.LOGISTIC: Rule(),
    OperationType.MAX_POOL_2D: Rule(check=_pooling),
    OperationType.MEAN: Rule(constants=(mean.Input.AXES,)),
    OperationType.MUL: Rule(_MAIN | {I32}),
    OperationType.PAD: Rule(constants=(pad.Input.PADDINGS,)),
    OperationType.PAD_V2: Rule(constants=(pad.Input.PADDINGS,)),
    OperationType.QUANTIZE: Rule(_FLOATS),
    OperationType.RELU: Rule(),
    OperationType.RELU1: Rule(),
    OperationType.RELU6: Rule(),
    OperationType.RESHAPE: Rule(_MAIN | {I32}, (reshape.Input.SHAPE,), _reshape),
    OperationType.SOFTMAX: Rule(),
    OperationType.SUB: Rule(_MAIN | {I32}),
    OperationType.TANH: Rule(),
}
"""One rule for each operation that is lowered."""

if RULES.keys() != LOWERINGS.keys():
    raise AssertionError(f"rules and lowerings differ: {sorted(RULES.keys() ^ LOWERINGS.keys())}")
