"""Which operations ethos_n takes, and why not the others.

The conditions for every operation are here: types, constants, known dimensions and their limits. Those of single
operations are in ``rules``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nnhal.errors import HalError
from nnhal.operations import DEFINITIONS, OperationContext, UnknownYet, type_name
from nnhal.resolved import ResolvedModel
from nnhal.types import Operand, OperationType
from nnhal.types.layout import Dimensions, combine, describe, is_extension, is_scalar
from nnhal_devices.driver import SUPPORTED, Support, Unsupported
from nnhal_devices.ethos_n.costs import QUANT8
from nnhal_devices.ethos_n.limits import MAX_DEPTH, MAX_RANK, MAX_SIDE
from nnhal_devices.ethos_n.rules import RULES, NpuRule
from nnhal_devices.ethos_n.rules.common import as_images, first_objection

_ALLOWED_TYPES = "TENSOR_QUANT8_ASYMM or TENSOR_QUANT8_ASYMM_SIGNED"
_ELSEWHERE = "place it on a CPU or GPU device"
_HINTS = {
    OperationType.QUANTIZE: "its input is of floats: feed the network 8-bit values, or quantise on a CPU device",
    OperationType.DEQUANTIZE: "its output is of floats: read 8-bit values, or dequantise on a CPU device",
    OperationType.SOFTMAX: "end the part for the NPU at the logits",
    OperationType.PAD: "give the padding to the convolution or pooling that follows, in its explicit form",
}
"""Advice for operations that are often asked for."""


def supported_operations(model: ResolvedModel) -> list[Support]:
    """An answer for each operation of the main subgraph."""
    graph = model.model.main
    known = [operand.dimensions for operand in graph.operands]
    answers: list[Support] = []
    for number, operation in enumerate(graph.operations):
        if is_extension(operation.type) or operation.type not in DEFINITIONS:
            answers.append(_not_taken(operation.type))
            continue
        op = model.context(0, number, tuple(known))
        answer, found = _support(op)
        answers.append(answer)
        for index, dimensions in zip(operation.outputs, found, strict=False):
            known[index] = combine(known[index], dimensions) or known[index]
    return answers


def _support(op: OperationContext) -> tuple[Support, Sequence[Dimensions]]:
    """The answer for one operation, and its outputs' dimensions as far as they are known."""
    try:
        found: Sequence[Dimensions] = DEFINITIONS[op.type].prepare(op)
    except HalError as error:
        return Unsupported("OP", error.message, "a valid operation", "make its operands fit one another"), ()
    except UnknownYet:
        found = ()
    rule = RULES.get(op.type)
    if rule is None:
        return _not_taken(op.type), found
    answer = first_objection(_of_any_operation(op, rule, found))
    return (answer if isinstance(answer, Unsupported) else rule.check(op)), found


def _not_taken(code: int) -> Unsupported:
    kind = None if is_extension(code) else OperationType(code)
    got = f"operation {code:#x} of an extension" if kind is None else kind.name
    allowed = f"one of the {len(RULES)} operations that ethos_n's README lists"
    return Unsupported("OP", got, allowed, _HINTS.get(kind, _ELSEWHERE) if kind is not None else _ELSEWHERE)


def _of_any_operation(op: OperationContext, rule: NpuRule, found: Sequence[Dimensions]) -> Iterator[Support]:
    """The conditions for every operation, in an order in which each check may rely on those before it."""
    tensors = [(f"input {index}", op.inputs[index], op.dimensions(index)) for index in rule.tensors(op)]
    tensors += [
        (f"output {index}", operand, combine(operand.dimensions, dimensions) or ())
        for index, (operand, dimensions) in enumerate(zip(op.outputs, found or [()] * len(op.outputs), strict=True))
    ]
    for name, operand, _ in tensors:
        yield _typed(name, operand)
    yield from _constants(op, rule)
    for name, _, dimensions in tensors:
        yield _known(name, dimensions)
        yield _ranked(name, dimensions)
        yield _sized(name, dimensions)


def _typed(name: str, operand: Operand) -> Support:
    if operand.type in QUANT8:
        return SUPPORTED
    hint = "quantise the network to 8 bits: the NPU has no other arithmetic"
    return Unsupported("DTYPE", f"{name} of {type_name(operand.type)}", _ALLOWED_TYPES, hint)


def _constants(op: OperationContext, rule: NpuRule) -> Iterator[Support]:
    for index, operand in enumerate(op.inputs):
        parameter = index in rule.constants or is_scalar(operand.type)
        if parameter and op.has(index) and not op.is_known(index):
            hint = "store it in the model: filters and parameters are encoded when the model is prepared"
            yield Unsupported("CONSTANT", f"input {index} that is computed or fed at run time", "a constant", hint)


def _known(name: str, dimensions: Dimensions) -> Support:
    if dimensions and 0 not in dimensions:
        return SUPPORTED
    got = f"{name} of {describe(dimensions) if dimensions else 'unknown rank'}"
    hint = "fix the dimensions in the model: stripes are planned when it is prepared"
    return Unsupported("DYN_SHAPE", got, "dimensions that are known beforehand", hint)


def _ranked(name: str, dimensions: Dimensions) -> Support:
    if len(dimensions) <= MAX_RANK:
        return SUPPORTED
    hint = "fold axes together with RESHAPE"
    return Unsupported("RANK", f"{name} of rank {len(dimensions)}", f"rank 1 to {MAX_RANK}", hint)


def _sized(name: str, dimensions: Dimensions) -> Support:
    batch, height, width, depth = as_images(dimensions)
    got = f"{name} of {describe(dimensions)}"
    if batch != 1:
        return Unsupported(
            "SHAPE", got, "batch 1", "run the images of a batch one after the other, and leave axis 0 of 4 where it is"
        )
    if max(height, width) > MAX_SIDE:
        return Unsupported("SHAPE", got, f"height and width of at most {MAX_SIDE}", "cut the image into tiles")
    if depth > MAX_DEPTH:
        return Unsupported("SHAPE", got, f"at most {MAX_DEPTH} channels", "split the tensor along its channels")
    return SUPPORTED
