"""VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE and CALL_ONCE: variables, which are states of the model."""

from __future__ import annotations

import numpy as np

from nnhal.types import OperandLifeTime
from nnhal.types.layout import combine, describe
from nnhal_frontends.tflite.builder import OperatorBuilder
from nnhal_frontends.tflite.tensors import operand_of


def handle(b: OperatorBuilder) -> None:
    """A handle of a variable, which no operation stands for."""
    _require_main(b)
    b.builder.folded[b.operator.outputs[0]] = np.zeros(0, np.int32)


def call_once(b: OperatorBuilder) -> None:
    """Subgraph that runs once, before the first run: the values of variables, which are known by now."""
    _require_main(b)


def read(b: OperatorBuilder) -> None:
    """The value of a variable at this point: an operand that is there already."""
    _require_main(b)
    variables = b.builder.variables
    name, output = variables.of_handle(b.operator), b.operator.outputs[0]
    if name not in variables.operands:
        initial = variables.begin(b.operator, name)
        if name not in variables.assigned:
            b.builder.folded[output] = initial
            return
        known = combine(b.target().shape, initial.shape or (1,))
        if known is None:
            raise b.unsupported(f"variable '{name}' begins as {describe(initial.shape)}", describe(b.target().shape))
        operand = operand_of(b.target(), OperandLifeTime.SUBGRAPH_INPUT, known)
        variables.operands[name] = variables.before[name] = b.model.add(operand, name)
    b.builder.operands[output] = variables.operands[name]


def assign(b: OperatorBuilder) -> None:
    """A new value of a variable."""
    _require_main(b)
    variables = b.builder.variables
    name, value = variables.of_handle(b.operator), b.input(1)
    before = variables.before.get(name)
    if before is not None:
        one, other = b.operand(before), b.operand(value)
        if not b.same_scale(before, value) or combine(one.dimensions, other.dimensions) is None:
            got = f"{describe(other.dimensions)} of another type, quantisation or shape"
            raise b.unsupported(f"variable '{name}' is assigned {got}", f"{describe(one.dimensions)} as it was")
    variables.operands[name] = value


def _require_main(b: OperatorBuilder) -> None:
    if b.builder.number:
        raise b.unsupported("variables in a subgraph of IF or WHILE", "variables in main")
