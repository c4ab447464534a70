from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations.operand_types import F32
from nnhal.operations.sizes import Sizes
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions
from tests.support.operations import context, open_tensor, tensor

RNN = OperationType.RNN


def sizes_of(*dimensions: Dimensions) -> Sizes:
    return Sizes(context(RNN, [open_tensor(F32, each) for each in dimensions], []))


def test_sizes_are_learnt_piece_by_piece() -> None:
    sizes = sizes_of((2, 0), (0, 3), ())
    sizes.learn(0, "batch", "units")
    assert sizes.of("batch", "units", "time") == (2, 0, 0)
    sizes.learn(1, "batch", "units")
    sizes.learn(2, "anything")
    assert sizes.of("batch", "units") == (2, 3)


def test_what_contradicts_is_refused() -> None:
    sizes = sizes_of((2, 3), (4, 2))
    sizes.learn(0, "batch", "units")
    with pytest.raises(HalError, match="input 1 makes the units 4, expected 3"):
        sizes.learn(1, "units", "batch")


def test_another_rank_is_refused() -> None:
    with pytest.raises(HalError, match=r"input 0 has rank 2, expected 1 \(units\)"):
        sizes_of((2, 3)).learn(0, "units")


def test_in_an_execution_zero_is_a_size() -> None:
    sizes = Sizes(context(RNN, [tensor(F32, [[]]), tensor(F32, [[1.0]])], [], executing=True))
    sizes.learn(0, "batch", "input size")
    with pytest.raises(HalError, match="the input size 1, expected 0"):
        sizes.learn(1, "batch", "input size")
