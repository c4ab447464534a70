"""The models of random steps: the small ones, and a loop that may never end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nnhal.arrays import Array
from nnhal.types import Operand, OperandType, OperationType
from nnhal_conformance.graph import I32, SpecimenBuilder
from nnhal_conformance.small_models import SHAPE, SmallModel, small_models

ENDLESS = -1
"""The seed of values for which a loop never ends."""


@dataclass(frozen=True, slots=True)
class Loop(SmallModel):
    """A loop that repeats, without changing its first input, while any element of that is less than the second's."""

    def values(self, seed: int) -> list[Array]:
        """Inputs: those of ``ENDLESS`` and below never end."""
        first, _ = super(Loop, self).values(abs(seed))
        return [first, first + 1 if seed <= ENDLESS else np.zeros_like(first)]


def is_endless(small: SmallModel, values: Sequence[Array]) -> bool:
    """Return whether an execution with these values never ends by itself."""
    return isinstance(small, Loop) and bool((values[0] < values[1]).any())


def all_models() -> dict[str, SmallModel]:
    """Return the models by their names."""
    return {each.name: each for each in (*small_models(), _loop())}


def _loop() -> Loop:
    program = SpecimenBuilder()
    main, condition, body = program.graph(), program.graph(), program.graph()
    whole, truth = Operand(I32, SHAPE), OperandType.TENSOR_BOOL8
    given = [main.input(I32, SHAPE) for _ in range(2)]
    graphs = [main.reference(condition), main.reference(body)]
    main.returns(main.operation(OperationType.WHILE, [*graphs, *given], whole))
    pair = [condition.input(I32, SHAPE) for _ in range(2)]
    less = condition.operation(OperationType.LESS, pair, Operand(truth, SHAPE))
    axes = [condition.constant(I32, [0, 1]), condition.constant(OperandType.BOOL, False)]
    condition.returns(condition.operation(OperationType.REDUCE_ANY, [less, *axes], Operand(truth, (1,))))
    same, _ = body.input(I32, SHAPE), body.input(I32, SHAPE)
    nothing = [body.constant(I32, np.zeros(SHAPE)), body.constant(OperandType.INT32, 0)]
    body.returns(body.operation(OperationType.ADD, [same, *nothing], whole))
    return Loop("WHILE of int32", program.model(), lambda values: values[0])
