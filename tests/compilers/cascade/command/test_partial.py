from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tflite import Padding

from nnhal_cascade.command.compiling import CascadeRequest, compile_network
from nnhal_cascade.command.network import UnsupportedNetworkError, read_network
from nnhal_cascade.command.partial import PartialStep, shared_memory, shortages, steps_of
from nnhal_cascade.hardware.memory_file import system_for
from tests.support.tflite_files import Spec, TfliteFile, int8

SIDE = 8
SLOT = SIDE * SIDE * 8
"""Bytes of each tensor between operations."""


def write(path: Path) -> Path:
    """Write a convolution, whose result is added at the end, and around another one two operations that are refused."""
    file = TfliteFile()
    generator = np.random.default_rng(0)
    unit = int8(1, SIDE, SIDE, 8, scale=1 / 128, zero_point=0)

    def convolved(given: int, name: str, channels: int) -> int:
        weights = generator.integers(-8, 8, (8, 3, 3, channels)).astype(np.int8)
        inputs = [
            given,
            file.constant(weights, int8(8, 3, 3, channels, scale=0.02, zero_point=0)),
            file.constant(np.zeros(8, np.int32), Spec([8], np.int32, 0.001)),
        ]
        same = {"Padding": Padding.SAME, "StrideW": 1, "StrideH": 1}
        made = {name: int8(1, SIDE, SIDE, 8, scale=0.05, zero_point=0)}
        (result,) = file.operator("CONV_2D", inputs, made, ("Conv2DOptions", same))
        return result

    def refused(given: int, name: str) -> int:
        (result,) = file.operator("L2_NORMALIZATION", [given], {name: unit}, ("L2NormOptions", {}))
        return result

    a = convolved(file.input("image", int8(1, SIDE, SIDE, 4, scale=0.05, zero_point=0)), "a", 4)
    last = refused(convolved(refused(a, "n"), "c", 8), "m")
    made = {"d": int8(1, SIDE, SIDE, 8, scale=0.05, zero_point=0)}
    (d,) = file.operator("ADD", [last, a], made, ("AddOptions", {}))
    path.write_bytes(file.build(d))
    return path


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> UnsupportedNetworkError:
    path = write(tmp_path_factory.mktemp("partial") / "skipped.tflite")
    with pytest.raises(UnsupportedNetworkError) as caught:
        read_network(path)
    return caught.value


def request_of(budget: int) -> CascadeRequest:
    return CascadeRequest(system_for("u55-128"), budget)


def names(step: PartialStep) -> tuple[set[str], set[str]]:
    return {each.name for each in step.own}, {each.name for each in step.across}


def test_steps_are_in_an_order_of_execution_with_what_lives_across_them(refused: UnsupportedNetworkError) -> None:
    steps = steps_of(refused)
    assert [step.network is not None for step in steps] == [True, False, True, False, True]
    assert [names(step) for step in steps] == [
        ({"image", "a"}, set()),
        ({"a", "n"}, set()),
        ({"n", "c"}, {"a"}),
        ({"c", "m"}, {"a"}),
        ({"m", "a", "d"}, set()),
    ]
    (across,) = steps[2].across
    assert (across.bytes, across.first, across.last) == (SLOT, 0, 4)


def test_the_peak_of_all_steps_counts_arenas_and_what_lives_across(refused: UnsupportedNetworkError) -> None:
    steps, request = steps_of(refused), request_of(1 << 20)
    found = {step.name: compile_network(step.network, request, False).schedule for step in steps if step.network}
    shared = shared_memory(steps, found, request)
    arenas = [None if step.network is None else found[step.name].peak for step in steps]
    assert [each.arena for each in shared.steps] == [arena or 2 * SLOT for arena in arenas]
    assert [each.across for each in shared.steps] == [0, 0, SLOT, SLOT, 0]
    assert shared.peak == max(each.bytes for each in shared.steps) == shared.steps[shared.step].bytes
    assert not list(shortages(shared, steps))


def test_a_subgraph_is_planned_within_what_lives_across_it_leaves(refused: UnsupportedNetworkError) -> None:
    _, _, middle, *_ = steps_of(refused)
    within = middle.within(request_of(1_500))
    assert within.budget == 1_500 - SLOT
    assert middle.network is not None
    assert compile_network(middle.network, within, False).schedule.peak <= within.budget
    assert "less 512 bytes that live across it (a, 512 bytes, steps 0 to 4)" in middle.told(request_of(1_500))
    assert middle.within(request_of(100)).budget == 0


def test_an_operation_of_another_device_that_does_not_fit_is_named_with_its_tensors(
    refused: UnsupportedNetworkError,
) -> None:
    steps, request = steps_of(refused), request_of(3 * SLOT - 1)
    (told,) = shortages(shared_memory(steps, {}, request), steps)
    assert told.startswith("step 3, operation 3 (L2_NORMALIZATION), does not fit 1,535 bytes")
    assert all(f"{name}, 512 bytes, steps" in told for name in "acm")
