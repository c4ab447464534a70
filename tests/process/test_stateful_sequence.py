"""A recurrent model whose states stay in device memory from time step to time step."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.endpoint import Endpoint
from nnhal.memory import create_ashmem, open_pool
from nnhal.remote import RemoteBuffer, RemoteDevice, RemoteExecution, RemotePreparedModel
from nnhal.types import DataLocation, Model, Operand, OperandType, OperationType, Request, RequestArgument
from tests.support.device_memory import allocate, contents, memory_with
from tests.support.lstm import BATCH, INPUT, UNITS, Form, Weights, expected_sequence, random_weights
from tests.support.models import Recipe

STEPS = 1000
CODE = OperandType.TENSOR_FLOAT32
STATE = Operand(CODE, (BATCH, UNITS))
STATE_BYTES = 4 * BATCH * UNITS
INPUT_BYTES = 4 * BATCH * INPUT
OUTPUT_OFFSET = 64
_TANH = 4


def one_operation(weights: Weights) -> Model:
    """Return an LSTM from input, output state and cell state to both states and the output."""
    recipe = Recipe()
    inputs = [recipe.input(CODE, (BATCH, INPUT))]
    inputs += [
        recipe.omitted(CODE) if given.value is None else recipe.constant(CODE, given.value)
        for given in weights.givens(CODE)
    ]
    inputs += [recipe.input(CODE, (BATCH, UNITS)) for _ in range(2)]
    inputs += [*recipe.integers(_TANH), *(recipe.constant(OperandType.FLOAT32, 0.0) for _ in range(2))]
    outputs = [Operand(CODE, (BATCH, 4 * UNITS)), STATE, STATE, STATE]
    scratch = recipe.operation(OperationType.LSTM, inputs, *outputs)
    return recipe.build(scratch + 1, scratch + 2, scratch + 3).model


def many_operations(weights: Weights) -> Model:
    """Return an equivalent model of simpler operations, for devices without LSTM."""
    recipe = Recipe()
    values, output, memory = (recipe.input(CODE, (BATCH, size)) for size in (INPUT, UNITS, UNITS))
    (none,) = recipe.integers(0)
    silent = recipe.constant(CODE, np.zeros(UNITS))

    def apply(code: OperationType, *inputs: int) -> int:
        return recipe.operation(code, inputs, STATE)

    def gate(number: int, activation: OperationType) -> int:
        bias = recipe.constant(CODE, weights.bias[number])
        matrices = [recipe.constant(CODE, four[number]) for four in (weights.weights, weights.recurrent)]
        seen = apply(OperationType.FULLY_CONNECTED, values, matrices[0], bias, none)
        remembered = apply(OperationType.FULLY_CONNECTED, output, matrices[1], silent, none)
        return apply(activation, apply(OperationType.ADD, seen, remembered, none))

    admit, forget = (gate(number, OperationType.LOGISTIC) for number in (0, 1))
    admitted = gate(2, OperationType.TANH)
    kept = apply(OperationType.MUL, forget, memory, none)
    memory = apply(OperationType.ADD, kept, apply(OperationType.MUL, admit, admitted, none), none)
    factors = gate(3, OperationType.LOGISTIC), apply(OperationType.TANH, memory)
    state, result = (apply(OperationType.MUL, *factors, none) for _ in range(2))
    return recipe.build(state, memory, result).model


MODELS: dict[str, Callable[[Weights], Model]] = {"LSTM": one_operation, "simpler operations": many_operations}


@pytest.fixture
def device(request: pytest.FixtureRequest, driver: str) -> Iterator[RemoteDevice]:
    endpoint: Endpoint = request.getfixturevalue(driver)
    with RemoteDevice(endpoint, "test") as session:
        yield session


def state_buffer(device: RemoteDevice, prepared: RemotePreparedModel, index: int, start: Array) -> list[RemoteBuffer]:
    """Allocate two buffers for a state that is the model's given input and output, and fill the first one."""
    pair = [allocate(device, prepared, [index + 1], [index]) for _ in range(2)]
    pair[0].copy_from(memory_with(start))
    return pair


@pytest.mark.contract("MD-47")
@pytest.mark.parametrize(
    ("driver", "name"),
    [("cpu_ref", "LSTM"), ("cpu_ref", "simpler operations"), ("cpu_acc", "simpler operations")],
)
def test_a_sequence_with_swapped_state_buffers_equals_the_unrolled_one(device: RemoteDevice, name: str) -> None:
    weights = random_weights(Form(), seed=5)
    rng = np.random.default_rng(7)
    values = rng.normal(0, 1, (STEPS, BATCH, INPUT)).astype(np.float32)
    starts = [rng.normal(0, 0.5, (BATCH, UNITS)).astype(np.float32) for _ in range(2)]
    prepared = device.prepare_model(MODELS[name](weights))
    output, memory = (state_buffer(device, prepared, index, start) for index, start in enumerate(starts))
    shared = create_ashmem(2 * OUTPUT_OFFSET)
    pool = open_pool(shared, writable=True)

    def step(now: int) -> RemoteExecution:
        then = 1 - now
        return prepared.create_reusable_execution(
            Request(
                (RequestArgument(DataLocation(0, 0, INPUT_BYTES)), *(RequestArgument(DataLocation(i)) for i in (1, 2))),
                (
                    *(RequestArgument(DataLocation(i)) for i in (3, 4)),
                    RequestArgument(DataLocation(0, OUTPUT_OFFSET, STATE_BYTES)),
                ),
                (shared, *(buffer.token for buffer in (output[now], memory[now], output[then], memory[then]))),
            )
        )

    executions = [step(0), step(1)]
    burst = prepared.configure_execution_burst()
    before, link_bytes = device.usage(), device.link_bytes
    results = np.empty((STEPS, BATCH, UNITS), np.float32)
    for number in range(STEPS):
        pool.write(0, values[number].reshape(-1).view(np.uint8))
        burst.run(executions[number % 2])
        results[number] = pool.read(OUTPUT_OFFSET, STATE_BYTES).view(np.float32).reshape(BATCH, UNITS)
    after = device.usage()
    assert after.buffer_copied_bytes == before.buffer_copied_bytes
    assert after.staged_bytes == before.staged_bytes
    assert (after.buffer_bytes, after.mappings, after.descriptors) == (
        before.buffer_bytes,
        before.mappings,
        before.descriptors,
    )
    assert device.link_bytes == link_bytes
    expected, last_output, last_memory = expected_sequence(weights, values, *starts)
    np.testing.assert_allclose(results, expected, rtol=1e-4, atol=1e-5)
    for buffers, last in ((output, last_output), (memory, last_memory)):
        found = contents(buffers[STEPS % 2], count=BATCH * UNITS)
        np.testing.assert_allclose(found.reshape(BATCH, UNITS), last, rtol=1e-4, atol=1e-5)
