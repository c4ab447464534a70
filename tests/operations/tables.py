"""All tables of operations."""

from __future__ import annotations

from tests.operations import (
    activation,
    boxes,
    conversion,
    convolution,
    elementwise,
    joining,
    lookup,
    lstm,
    making,
    matrix,
    movement,
    normalization,
    pooling,
    reduction,
    regions,
    resize,
    rnn,
    shape,
)

FAMILIES = (
    activation,
    boxes,
    conversion,
    convolution,
    elementwise,
    joining,
    lookup,
    lstm,
    making,
    matrix,
    movement,
    normalization,
    pooling,
    reduction,
    regions,
    resize,
    rnn,
    shape,
)
ROWS = [row for family in FAMILIES for row in family.ROWS]
