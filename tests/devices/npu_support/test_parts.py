from __future__ import annotations

from nnhal.operations._types import Q8A
from nnhal.types import Operand, OperationType
from nnhal_devices.npu_support.parts import part_of
from tests.support.models import Recipe


def test_a_part_takes_what_others_compute_and_gives_what_others_read() -> None:
    recipe = Recipe()
    values = [recipe.input(Q8A, (1, 4), 0.5, 128)]
    for _ in range(3):
        values.append(recipe.operation(OperationType.RELU, values[-1:], Operand(Q8A, (), 0.5, 128)))
    main = part_of(recipe.build(values[-1]), [1]).model.main
    assert (main.input_indexes, main.output_indexes) == ((values[1],), (values[2],))
    assert len(main.operations) == 1
    assert main.operands[values[2]].dimensions == (1, 4)
