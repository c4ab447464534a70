"""Memory of open outputs before a run says what they need."""

from __future__ import annotations

import numpy as np
import pytest

from nnhal.tensors import GUESS, Tensor
from nnhal.types import OperandType
from nnhal_service.serving.instances.instance_pool import OutputSizeGuess


def open_tensor(name: str, *dimensions: int) -> Tensor:
    return Tensor(name, OperandType.TENSOR_FLOAT32, dimensions, 0, 0.0, 0, np.dtype(np.float32), np.dtype(np.float32))


@pytest.fixture
def room() -> OutputSizeGuess:
    return OutputSizeGuess([open_tensor("x", 0, 8)], [open_tensor("y", 0, 0)], has_batch=False)


def test_an_output_of_which_nothing_is_known_gets_a_little(room: OutputSizeGuess) -> None:
    assert room.guess(((1_000_000, 8),)) == {"y": GUESS}


def test_an_output_gets_what_it_took(room: OutputSizeGuess) -> None:
    room.learn(((1000, 8),), {"y": 64_000})
    assert room.guess(((1000, 8),))["y"] >= 64_000


def test_a_large_run_leaves_small_runs_small(room: OutputSizeGuess) -> None:
    room.learn(((3_000_000, 8),), {"y": 96_000_000})
    assert room.guess(((2000, 8),))["y"] <= 64_001
    assert room.guess(((1, 8),)) == {"y": GUESS}


def test_an_output_of_a_fixed_size_is_never_given_more(room: OutputSizeGuess) -> None:
    for rows in (1000, 10, 1):
        room.learn(((rows, 8),), {"y": 64_000})
    assert [room.guess(((rows, 8),))["y"] for rows in (1, 10, 1_000_000)] == [64_000] * 3


def test_an_open_batch_needs_no_guess() -> None:
    room = OutputSizeGuess([open_tensor("x", 0, 8)], [open_tensor("y", 0, 3)], has_batch=True)
    assert room.guess(((5, 8),)) == room.least(((5, 8),)) == {"y": 60}
