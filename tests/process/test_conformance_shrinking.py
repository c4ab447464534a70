"""Tests that fail on a device, reduced with real device processes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.types import Model, Operand, OperandLifeTime, OperandType, Operation, OperationType, Subgraph
from nnhal_tools.conformance.memory import MemoryChoice
from nnhal_tools.conformance.runner import ExecutionMode, Verdict, Way
from nnhal_tools.conformance.shrinking import Reducer, Reduction, fails_alike, reduction_words
from nnhal_tools.conformance.surviving import SurvivingRunner
from nnhal_tools.conformance.vectors import Vector, parse_vector, vector_of
from nnhal_tools.conformance.written import vector_line
from nnhal_tools.up import RenewableDevice
from tests.support.faulty_drivers import write_faulty_driver
from tests.support.processes import device_process

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("warm_single_devices")]

FLOAT, OFTEN = OperandType.TENSOR_FLOAT32, 500
SYNC: Way = (ExecutionMode.SYNC, MemoryChoice.ASHMEM)


@pytest.fixture(autouse=True)
def backends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "backends"
    write_faulty_driver(folder, "Wrong", {"LOGISTIC": "RELU6"})
    write_faulty_driver(folder, "Mortal", deadly="LOGISTIC")
    write_faulty_driver(folder, "Endless", endless="LOGISTIC")
    write_faulty_driver(folder, "Refusing", refused="LOGISTIC")
    monkeypatch.setenv("NNHAL_DEVICE_BACKEND_PATHS", str(folder))


@pytest.fixture(scope="module")
def reference() -> Iterator[RenewableDevice]:
    with RenewableDevice("cpu_ref", "test") as opened:
        yield opened


def chain(*words: str, shape: Sequence[int] = (2, 3)) -> Vector:
    """Return a test of operations of one input and one output, one after another, with what NumPy makes of them."""
    computed: dict[str, Callable[[Array], Array]] = {
        "TANH": np.tanh,
        "EXP": np.exp,
        "LOGISTIC": lambda x: 1 / (1 + np.exp(-x)),
    }
    operand = Operand(FLOAT, tuple(shape), lifetime=OperandLifeTime.TEMPORARY_VARIABLE)
    operands = [
        replace(operand, lifetime=OperandLifeTime.SUBGRAPH_INPUT),
        *[operand] * (len(words) - 1),
        replace(operand, lifetime=OperandLifeTime.SUBGRAPH_OUTPUT),
    ]
    operations = tuple(Operation(OperationType[word], (n,), (n + 1,)) for n, word in enumerate(words))
    given: Array = np.linspace(-2, 2, operand.dimensions[0] * 3, dtype=np.float32).reshape(shape)
    result = given
    for word in words:
        result = computed[word](result).astype(np.float32)
    graph = Subgraph(tuple(operands), operations, (0,), (len(words),))
    return vector_of("+".join(words), "test", Model(graph), [given], [result])


@contextmanager
def reduced(
    driver: str, vector: Vector, reference: RenewableDevice, way: Way = SYNC
) -> Iterator[tuple[Reduction, RenewableDevice]]:
    with RenewableDevice(driver, "test") as device:
        (result,) = SurvivingRunner(device, [way]).run(vector)
        assert result.verdict is Verdict.FAILED
        yield Reducer(device, reference, OFTEN).reduce(vector, result), device


@pytest.mark.parametrize(
    ("driver", "failure", "words"),
    [
        ("Wrong", "values", "output 0: 1 of 1 values are wrong: [0] 0 for 0.5"),
        ("Refusing", "GENERAL_FAILURE", "GENERAL_FAILURE: out of descriptors"),
    ],
)
def test_a_test_that_fails_is_reduced_to_the_operation_that_is_wrong(
    reference: RenewableDevice, driver: str, failure: str, words: str
) -> None:
    way = (ExecutionMode.BURST, MemoryChoice.TOKEN)
    with reduced(driver, chain("TANH", "LOGISTIC", "EXP"), reference, way) as (found, device):
        assert (found.result.failure, found.is_least, found.problem) == (failure, True, "")
        told = reduction_words(found)
        assert told.startswith("TANH+LOGISTIC+EXP, burst over token: LOGISTIC of TENSOR_FLOAT32 [1, 1]: ")
        assert words in told
        assert told.endswith(f" ({found.tries} tries)")
        least = parse_vector(json.loads(vector_line(found.vector)))
        assert (least.mode, least.memory) == way
        for tested, verdict in ((reference, Verdict.PASSED), (device, Verdict.FAILED)):
            (again,) = SurvivingRunner(tested, [way]).run(least)
            assert again.verdict is verdict


def test_a_device_that_dies_is_started_again_for_each_try(reference: RenewableDevice) -> None:
    with reduced("Mortal", chain("LOGISTIC", shape=(1, 3)), reference) as (found, _):
        assert not fails_alike(found.result, replace(found.result, reason="Mortal was killed by SIGSEGV"))
        assert (found.result.failure, found.reason, found.problem) == ("ended", "Mortal ended with status 9", "")
        assert found.vector.inputs[0] is not None
        assert found.vector.inputs[0].tolist() == [[0.0]]


def test_a_device_that_hangs_has_failed_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNHAL_DEVICE_STOP_SECONDS", "0.1")
    with RenewableDevice("Endless", "test") as device:
        runner = SurvivingRunner(device, [SYNC], 0.5)
        results = [result for words in ("LOGISTIC", "TANH") for result in runner.run(chain(words))]
        (limited,) = SurvivingRunner(device, [SYNC]).run(replace(chain("LOGISTIC"), seconds=0.5))
    assert [result.failure for result in (*results, limited)] == ["ended", "", "ended"]


def test_a_search_that_is_cut_short_says_so(reference: RenewableDevice) -> None:
    with RenewableDevice("Wrong", "test") as device:
        vector = chain("LOGISTIC")
        (result,) = SurvivingRunner(device, [SYNC]).run(vector)
        found = Reducer(device, reference, 2).reduce(vector, result)
    assert (found.is_least, found.problem) == (False, "")
    assert reduction_words(found).endswith("tries, the search ended there)")


def test_a_test_that_the_reference_fails_too_is_kept_as_it_is(reference: RenewableDevice) -> None:
    vector = chain("TANH")
    wrong = replace(vector, outputs=(replace(vector.outputs[0], values=vector.outputs[0].values + 1),))
    with reduced("Wrong", wrong, reference) as (found, _):
        assert found.vector is wrong
        assert "not reduced: cpu_ref does not pass it either: output 0: 6 of 6" in reduction_words(found)


def test_a_test_that_does_not_fail_again_is_kept_as_it_is(reference: RenewableDevice) -> None:
    vector = chain("LOGISTIC")
    with RenewableDevice("Wrong", "test") as device:
        (result,) = SurvivingRunner(device, [SYNC]).run(vector)
    again = Reducer(reference, reference, OFTEN).reduce(vector, result)
    assert again.vector is vector
    assert reduction_words(again).endswith("not reduced: run once more, it does not fail so")
    late = Reducer(reference, reference, OFTEN).reduce(vector, replace(result, failure="ended"))
    assert reduction_words(late).endswith("the device does not die so: what was run before it may be the cause")


def test_inputs_without_a_value_stay_omitted_and_outputs_that_are_not_compared_stay_so(
    reference: RenewableDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_faulty_driver(tmp_path / "more", "Hashing", refused="LSH_PROJECTION")
    monkeypatch.setenv("NNHAL_DEVICE_BACKEND_PATHS", str(tmp_path / "more"))

    def operand(code: str, dimensions: list[int], lifetime: str, **more: object) -> dict[str, object]:
        return {"type": code, "dimensions": dimensions, "scale": 0.0, "zero_point": 0, "lifetime": lifetime, **more}

    operands = [
        operand("TENSOR_FLOAT32", [2, 1], "SUBGRAPH_INPUT", data=[1, 2]),
        operand("TENSOR_INT32", [3], "SUBGRAPH_INPUT", data=[4, 5, 6]),
        operand("TENSOR_FLOAT32", [3], "SUBGRAPH_INPUT"),
        operand("INT32", [], "CONSTANT_COPY", data=[2]),
        operand("TENSOR_INT32", [2], "SUBGRAPH_OUTPUT", data=[7, 8], ignored=True),
    ]
    operations = [{"type": "LSH_PROJECTION", "inputs": [0, 1, 2, 3], "outputs": [4]}]
    main = {"operands": operands, "operations": operations, "inputs": [0, 1, 2], "outputs": [4]}
    told = {"name": "hashes", "spec": "test", "relaxed": False, "expect_failure": False, "multinomial_tolerance": 0.0}
    test = {**told, "main": main}
    with reduced("Hashing", parse_vector(test), reference) as (found, _):
        assert found.problem == ""
        assert [array.size for array in found.vector.inputs if array is not None] == [1, 1]
        assert [output.compared for output in found.vector.outputs] == [False]


def test_a_running_device_that_comes_back_is_met_again(short_path: Path) -> None:
    with device_process("Mortal", short_path) as (child, endpoint):
        device = RenewableDevice(str(endpoint.directory), "test")
        child.process.kill()
        child.process.wait()
    with device, device_process("Mortal", short_path):
        device.renew()
        assert device.remote.version() == "faulty-1.0"
