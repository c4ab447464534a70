"""Models that differ in one thing from a valid one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nnhal.types import Model, Operand, OperandLifeTime


def with_main(model: Model, **changes: Any) -> Model:
    """Other fields of the main subgraph."""
    return replace(model, main=replace(model.main, **changes))


def with_operand(model: Model, index: int, **changes: Any) -> Model:
    """Other fields of one operand of main."""
    operands = list(model.main.operands)
    operands[index] = replace(operands[index], **changes)
    return with_main(model, operands=tuple(operands))


def with_operation(model: Model, index: int, **changes: Any) -> Model:
    """Other fields of one operation of main."""
    operations = list(model.main.operations)
    operations[index] = replace(operations[index], **changes)
    return with_main(model, operations=tuple(operations))


def with_unread(model: Model, operand: Operand) -> Model:
    """One operand more, which no operation reads. One of lifetime SUBGRAPH_INPUT is listed as input."""
    inputs = model.main.input_indexes
    if operand.lifetime == OperandLifeTime.SUBGRAPH_INPUT:
        inputs = (*inputs, len(model.main.operands))
    return with_main(model, operands=(*model.main.operands, operand), input_indexes=inputs)
