"""Models with the dimensions that a request has given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from nnhal.types import Model, Operand
from nnhal.types.layout import Dimensions, is_scalar


def with_dimensions(model: Model, dimensions: Mapping[int, Dimensions]) -> Model:
    """Return a model whose inputs and outputs have given dimensions, by operands of main; empty ones change nothing."""

    def known(number: int, operand: Operand) -> Operand:
        given = dimensions.get(number, ())
        return replace(operand, dimensions=given) if given and not is_scalar(operand.type) else operand

    operands = tuple(known(number, operand) for number, operand in enumerate(model.main.operands))
    return replace(model, main=replace(model.main, operands=operands))
