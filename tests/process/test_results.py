"""The accuracy of devices' results, within the tolerances of the contract."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.endpoint import Endpoint
from nnhal.operations.operand_types import F16, F32, FLOAT16, FLOAT32, I32, Q8A
from nnhal.remote import RemoteDevice
from nnhal.resolved import ResolvedModel
from nnhal.types import Operand, OperandType, OperationType
from nnhal_tools.cases.case import Case, CaseOutcome, ExecutionMode, Expectation, MemoryChoice, Verdict
from nnhal_tools.cases.runner import CaseRunner
from tests.support.coupling import signed_counterpart
from tests.support.models import Recipe

TIGHT, HALF = (1e-5, 5 * 2.0**-23), (5 * 2.0**-10, 5 * 2.0**-10)
"""Absolute and relative tolerances, of float32 and of half precision."""
ONE_STEP = (1.0, 0.0)


@pytest.fixture(params=["cpu_ref", "cpu_acc"])
def runner(request: pytest.FixtureRequest) -> Iterator[CaseRunner]:
    endpoint: Endpoint = request.getfixturevalue(request.param)
    with RemoteDevice(endpoint, "test") as device:
        yield CaseRunner(device, [(ExecutionMode.SYNC, MemoryChoice.ASHMEM)])


def vector(
    model: ResolvedModel,
    inputs: Sequence[Array],
    output: Array,
    tolerance: tuple[float, float],
    multinomial_tolerance: float = 0.0,
) -> Case:
    expected = Expectation(output, True, *tolerance)
    return Case("test", "test", model.model, tuple(inputs), (expected,), False, multinomial_tolerance)


def dense(code: OperandType, relaxed: bool) -> tuple[ResolvedModel, list[Array], Array]:
    """Return SOFTMAX of TANH of FULLY_CONNECTED: the model, its inputs, and the result in double precision."""
    recipe = Recipe()
    random = np.random.default_rng(3)
    element = np.float16 if code == F16 else np.float32
    values, weights, bias = (random.normal(size=shape).astype(element) for shape in ((4, 64), (32, 64), (32,)))
    inputs = [recipe.input(code, values.shape), recipe.constant(code, weights), recipe.constant(code, bias)]
    sums = recipe.operation(OperationType.FULLY_CONNECTED, [*inputs, *recipe.integers(0)], Operand(code, (4, 32)))
    bounded = recipe.operation(OperationType.TANH, [sums], Operand(code, (4, 32)))
    beta = recipe.constant(FLOAT16 if code == F16 else FLOAT32, 1)
    top = recipe.operation(OperationType.SOFTMAX, [bounded, beta], Operand(code, (4, 32)))
    exact = np.tanh(values.astype(np.float64) @ weights.astype(np.float64).T + bias.astype(np.float64))
    exact = np.exp(exact) / np.exp(exact).sum(axis=1, keepdims=True)
    return recipe.build(top, relaxed=relaxed), [values], exact.astype(element)


@pytest.mark.contract("EX-18")
@pytest.mark.parametrize(
    ("code", "relaxed", "tolerance"),
    [
        pytest.param(F32, False, TIGHT, id="float32"),
        pytest.param(F32, True, HALF, id="float32, relaxed"),
        pytest.param(F16, False, HALF, id="float16"),
    ],
)
def test_floats_are_as_accurate_as_the_model_requires(
    runner: CaseRunner, code: OperandType, relaxed: bool, tolerance: tuple[float, float]
) -> None:
    model, inputs, expected = dense(code, relaxed)
    passes(*runner.run(vector(model, inputs, expected, tolerance)))


@pytest.mark.contract("EX-19")
def test_random_samples_are_judged_by_the_frequencies_of_the_classes(device: RemoteDevice) -> None:
    recipe = Recipe()
    count = 20_000
    logits = recipe.input(F32, (2, 3))
    inputs = [logits, *recipe.integers(count), recipe.constant(I32, [37, 42])]
    samples = recipe.operation(OperationType.RANDOM_MULTINOMIAL, inputs, Operand(I32, (2, count)))
    given = np.log(np.array([[0.2, 0.3, 0.5], [0.9, 0.09, 0.01]], np.float32))
    no_matter = np.zeros((2, count), np.int32)
    test = vector(recipe.build(samples), [given], no_matter, (0.0, 0.0), multinomial_tolerance=0.02)
    runner = CaseRunner(device, [(ExecutionMode.SYNC, MemoryChoice.ASHMEM)])
    passes(*runner.run(test))
    (result,) = runner.run(replace(test, multinomial_tolerance=1e-9))
    assert result.verdict == Verdict.FAILED
    assert "too often or too seldom" in result.reason


def quantized_sum() -> Case:
    recipe = Recipe()
    first, second = recipe.input(Q8A, (2, 2), 0.5, 100), recipe.constant(Q8A, [[0, 90], [128, 255]], 0.25, 128)
    total = recipe.operation(OperationType.ADD, [first, second, *recipe.integers(0)], Operand(Q8A, (2, 2), 1.0, 50))
    given, expected = np.array([[100, 200], [0, 255]], np.uint8), np.array([[18, 91], [0, 159]], np.uint8)
    return vector(recipe.build(total), [given], expected, ONE_STEP)


def quantized_maximum() -> Case:
    """Return a MAX_POOL_2D of the whole image."""
    recipe = Recipe()
    image = recipe.input(Q8A, (1, 2, 2, 2), 0.5, 7)
    most = recipe.operation(
        OperationType.MAX_POOL_2D, [image, *recipe.integers(2, 1, 1, 2, 2, 0)], Operand(Q8A, (1, 1, 1, 2), 0.5, 7)
    )
    given = np.array([0, 10, 127, 128, 129, 0, 3, 255], np.uint8).reshape(1, 2, 2, 2)
    return vector(recipe.build(most), [given], np.array([129, 255], np.uint8).reshape(1, 1, 1, 2), ONE_STEP)


def quantized_probabilities() -> Case:
    """Return a SOFTMAX, whose output has its own zero point."""
    recipe = Recipe()
    logits, beta = recipe.input(Q8A, (1, 4), 0.5, 128), recipe.constant(FLOAT32, 1)
    top = recipe.operation(OperationType.SOFTMAX, [logits, beta], Operand(Q8A, (1, 4), 1 / 256))
    given = np.array([[128, 128, 130, 132]], np.uint8)
    powers = np.exp((given - 128.0) / 2)
    expected = np.round(256 * powers / powers.sum()).astype(np.uint8)
    return vector(recipe.build(top), [given], expected, ONE_STEP)


def quantized_product() -> Case:
    """Return a FULLY_CONNECTED with weights and a bias."""
    recipe = Recipe()
    values = recipe.input(Q8A, (1, 3), 0.5, 128)
    weights = recipe.constant(Q8A, [[130, 128, 128], [128, 120, 129]], 0.25, 128)
    inputs = [values, weights, recipe.constant(I32, [4, -8], 0.125), *recipe.integers(0)]
    sums = recipe.operation(OperationType.FULLY_CONNECTED, inputs, Operand(Q8A, (1, 2), 0.5, 40))
    given = np.array([[138, 148, 118]], np.uint8)
    real = np.array([[10 * 2 + 4, 20 * -8 - 10 * 1 - 8]]) * 0.125
    expected = np.clip(np.round(real / 0.5) + 40, 0, 255).astype(np.uint8)
    return vector(recipe.build(sums), [given], expected, ONE_STEP)


@pytest.mark.contract("EX-16")
@pytest.mark.parametrize("make", [quantized_sum, quantized_maximum, quantized_probabilities, quantized_product])
def test_results_of_signed_and_unsigned_values_are_equally_accurate(
    runner: CaseRunner, make: Callable[[], Case]
) -> None:
    test = make()
    passes(*runner.run(test))
    passes(*runner.run(signed_counterpart(test)))


def passes(result: CaseOutcome) -> None:
    assert result.verdict == Verdict.PASSED, result.reason
