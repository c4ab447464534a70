"""Inputs and outputs of a run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal_mlip.program.program import TaskKind
from nnhal_mlip.simulator.errors import SimulatorInputError
from nnhal_mlip.simulator.simulator import Simulator
from nnhal_mlip.timing.profile import read_profile
from tests.support.mlip_by_hand import NUMBERS, HandMade, one_task

PROFILE = read_profile()


def copying(dtype: type[np.generic], input_scale: float = 1.0, output_scale: float = 1.0) -> HandMade:
    """A program that returns its input of shape [1, 1, 1, 6]."""
    factors = (1.0,) if dtype is np.int8 else ()
    numbers = replace(NUMBERS, input_factors=factors)
    made = one_task(TaskKind.COPY, np.zeros((1, 1, 1, 6), dtype), output=(1, 1, 1, 6), task=numbers)
    made.inputs[0] = replace(made.inputs[0], scale=input_scale)
    made.outputs[0] = replace(made.outputs[0], scale=output_scale)
    return made


def row(*values: float) -> Array:
    return np.array(values, np.float32).reshape(1, 1, 1, 6)


def test_float32_is_quantised_with_halves_away_from_zero_and_clamped() -> None:
    simulator = Simulator(copying(np.int8, 0.5, 0.25).binary(), PROFILE)
    run = simulator.run([row(0.25, -0.25, 0.75, 1.0, 1e9, -np.inf)])
    assert run.raw[0].ravel().tolist() == [1, -1, 2, 2, 127, -128]
    assert run.outputs[0].ravel().tolist() == [0.25, -0.25, 0.5, 0.5, 31.75, -32.0]
    assert run.raw[0].dtype == np.int8
    assert run.outputs[0].dtype == np.float32


def test_float16_is_a_plain_conversion() -> None:
    run = Simulator(copying(np.float16).binary(), PROFILE).run([row(1.0, 0.1, -70000.0, 65504.0, 1e-9, 3.0)])
    expected = [1.0, float(np.float16(0.1)), -np.inf, 65504.0, 0.0, 3.0]
    assert run.outputs[0].ravel().tolist() == expected
    assert run.raw[0].dtype == np.float16


def test_inputs_of_the_accelerators_type_pass_as_they_are() -> None:
    values = np.array([-128, -1, 0, 1, 5, 127], np.int8).reshape(1, 1, 1, 6)
    np.testing.assert_array_equal(Simulator(copying(np.int8, 0.1).binary(), PROFILE).run([values]).raw[0], values)


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ([], "0 inputs, expected 1: in0"),
        ([np.zeros((1, 6), np.float32)], r"in0 has the shape \(1, 6\), expected \(1, 1, 1, 6\)"),
        ([np.zeros((1, 1, 1, 6), np.int32)], "in0 is int32, expected int8, or float32"),
        ([row(0, 0, 0, 0, 0, np.nan)], "in0 holds NaN"),
    ],
)
def test_other_inputs_are_refused(inputs: list[Array], words: str) -> None:
    with pytest.raises(SimulatorInputError, match=words):
        Simulator(copying(np.int8).binary(), PROFILE).run(inputs)
