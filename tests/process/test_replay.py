"""Replays of recordings: on the same device nothing differs, on a wrong one what does is found."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.memory import create_ashmem, open_pool
from nnhal.remote import RemoteDevice
from nnhal.remote.recordings import Omissions
from nnhal.types import (
    Ashmem,
    BufferRole,
    DataLocation,
    ErrorStatus,
    Model,
    Operand,
    OperandType,
    OperationType,
    RequestArgument,
)
from nnhal_tools.cases.case import ExecutionMode, MemoryChoice, Verdict
from nnhal_tools.cases.execution import run_on
from nnhal_tools.cases.report import CaseReport
from nnhal_tools.cases.runner import CaseRunner
from nnhal_tools.cases.vectors import read_vectors
from nnhal_tools.replay import replay_recording
from tests.support.additions import TENSOR_BYTES, addition_in_ashmem, addition_model, additions_in_a_cycle
from tests.support.faulty import METHODS_OF_WAYS, execution_in
from tests.support.faulty_drivers import write_faulty_driver
from tests.support.models import Recipe
from tests.support.recordings import recordable_device, recording
from tests.support.refusals import FAILURE, INVALID, refusal

pytestmark = pytest.mark.slow
VECTORS = Path(__file__).parents[2] / "examples/vectors.jsonl"


@pytest.fixture(scope="module")
def device() -> Iterator[Endpoint]:
    with tempfile.TemporaryDirectory(prefix="nnhal-") as directory, recordable_device(Path(directory)) as endpoint:
        yield endpoint


@pytest.fixture
def wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drivers with a bug in LOGISTIC, that die of it, and that decline it."""
    folder = tmp_path / "backends"
    write_faulty_driver(folder, "Wrong", {"LOGISTIC": "RELU6"})
    write_faulty_driver(folder, "Mortal", deadly="LOGISTIC")
    write_faulty_driver(folder, "Picky", declined=("LOGISTIC",))
    monkeypatch.setenv("NNHAL_DEVICE_BACKEND_PATHS", str(folder))


def network(*operations: OperationType) -> Model:
    """Functions of four floats, one after the other."""
    recipe, code = Recipe(), OperandType.TENSOR_FLOAT32
    value, operand = recipe.input(code, (4,)), Operand(code, (4,))
    for operation in operations:
        value = recipe.operation(operation, [value], operand)
    return recipe.build(value).model


STORY = network(OperationType.TANH, OperationType.LOGISTIC, OperationType.ABS)
INPUT = np.array([-2, -0.5, 0.5, 2], np.float32)


def replayed(path: Path, device: Endpoint | str) -> CaseReport:
    return replay_recording(path, device if isinstance(device, str) else str(device.directory))


def executions(report: CaseReport) -> int:
    """Count the executions that went as they had gone."""
    passed = [outcome for outcome in report.outcomes if outcome.verdict == Verdict.PASSED]
    return len([outcome for outcome in passed if "PrepareModel" not in outcome.name])


@pytest.fixture
def story(device: Endpoint, tmp_path: Path) -> Path:
    path = tmp_path / "story.nnrec"
    with recording(device, path), RemoteDevice(device, "a client") as remote:
        run_on(remote, STORY, [[INPUT], [INPUT / 2]])
    return path


@pytest.mark.parametrize("way", METHODS_OF_WAYS)
def test_every_way_of_execution_is_replayed(device: Endpoint, tmp_path: Path, way: str) -> None:
    with recording(device, tmp_path / "a.nnrec"), execution_in(way, device) as execute:
        execute()
        execute()
    report = replayed(tmp_path / "a.nnrec", device)
    assert report.failures == []
    assert not report.left_out
    assert executions(report) == (4 if way == "chain" else 2)


@pytest.mark.parametrize("memory", MemoryChoice)
def test_every_kind_of_memory_is_replayed(device: Endpoint, tmp_path: Path, memory: MemoryChoice) -> None:
    path = tmp_path / "a.nnrec"
    with recording(device, path), RemoteDevice(device, "a client") as remote:
        runner = CaseRunner(remote, [(mode, memory) for mode in ExecutionMode])
        for vector in read_vectors(VECTORS):
            runner.run(vector)
    report = replayed(path, device)
    assert report.failures == []
    assert executions(report) >= 5 * 4


def test_a_wrong_kernel_is_found_in_its_call_and_from_its_operation_on(wrong: None, story: Path) -> None:
    report = replayed(story, "Wrong")
    first, second = report.failures
    assert first.group == second.group == "model 1"
    assert first.name.startswith("PreparedModel.ExecuteSynchronouslyWithConfig of session 1 at ")
    assert first.reason.startswith("output 0: 4 of 4 values are wrong: [0] ")
    assert first.origin.startswith("from operation 1 (LOGISTIC), by comparison with cpu_ref: made there")


REMEMBERING = """
class Remembering:
    def __init__(self, workload):
        self._workload, self.large = workload, 0

    def bind(self, inputs, outputs):
        return Bound(self._workload.bind(inputs, outputs), self, inputs, outputs)


class Bound:
    def __init__(self, bound, workload, inputs, outputs):
        self._bound, self._workload, self._inputs, self._outputs = bound, workload, inputs, outputs

    def run(self, control):
        outcome = self._bound.run(control)
        if self._workload.large >= 2:
            self._outputs[0].data[:] = 0
        self._workload.large += int(self._inputs[0].data.view("f4")[0] > 100)
        return outcome
"""
"""Workloads whose outputs are zeros once two runs have had an input above 100."""


@pytest.mark.usefixtures("warm_single_devices")
def test_a_device_that_keeps_something_between_runs_is_named(
    device: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = (
        Path("examples/workbench/Acme_Npu_backend.py").read_text().replace("    OperationType.MAX_POOL_2D: ", "    # ")
    )
    right = "return self._reference.prepare(replace(model, model=compiled), options)"
    assert right in source
    wrong = source.replace(right, "return Remembering(self._reference.prepare(model, options))") + REMEMBERING
    (tmp_path / "Acme_Npu_backend.py").write_text(wrong)
    monkeypatch.setenv("NNHAL_DEVICE_BACKEND_PATHS", str(tmp_path))
    path = tmp_path / "a.nnrec"
    with recording(device, path), RemoteDevice(device, "a client") as remote:
        runs = [[np.full(4, first, np.float32)] for first in (200, 1, 200, 5, 6)]
        run_on(remote, network(OperationType.ABS), runs)
    report = replayed(path, "Npu")
    first, _ = report.failures
    assert first.origin == "no operation: by itself the call is right. Npu keeps something between runs"


def test_a_recorded_device_that_was_wrong_is_named(wrong: None, tmp_path: Path) -> None:
    path = tmp_path / "a.nnrec"
    with (
        recordable_device(tmp_path / "device", driver="Wrong") as endpoint,
        recording(endpoint, path),
        RemoteDevice(endpoint, "a client") as remote,
    ):
        run_on(remote, network(OperationType.LOGISTIC), [[INPUT]])
    (told,) = (outcome.origin for outcome in replayed(path, "cpu_acc").failures)
    assert told.startswith("no operation: cpu_acc and cpu_ref agree, and differ from the recording, so it is the ")
    assert "recorded device, Wrong, that was wrong" in told


def test_a_device_that_dies_is_said_with_its_call_and_asked_the_next_one(
    wrong: None, device: Endpoint, tmp_path: Path
) -> None:
    path = tmp_path / "a.nnrec"
    with recording(device, path), RemoteDevice(device, "a client") as remote:
        run_on(remote, network(OperationType.LOGISTIC), [[INPUT]])
    preparation, execution = replayed(path, "Mortal").failures
    assert preparation.name.startswith("Device.PrepareModelWithConfig of session 1")
    assert preparation.reason == execution.reason == "Mortal ended with status 9"


def test_models_that_a_device_declines_are_left_out_with_the_reason(wrong: None, story: Path) -> None:
    report = replayed(story, "Picky")
    assert report.failures == []
    assert {outcome.verdict for outcome in report.outcomes} == {Verdict.DECLINED}
    assert "3 declined: OP: got LOGISTIC, allowed others" in report.told()


def test_refusals_are_compared(device: Endpoint, tmp_path: Path) -> None:
    path = tmp_path / "a.nnrec"
    with recording(device, path), RemoteDevice(device, "a client") as remote:
        refusal(lambda: remote.prepare_model(additions_in_a_cycle()), INVALID)
        refusal(lambda: remote.supported_operations(additions_in_a_cycle()), INVALID)
        prepared = remote.prepare_model(addition_model())
        refusal(lambda: prepared.execute(addition_in_ashmem().of_one_term), INVALID)
        refusal(
            lambda: prepared.execute(addition_in_ashmem().request, deadline_ns=1),
            ErrorStatus.MISSED_DEADLINE_PERSISTENT,
        )
        buffer = remote.allocate([prepared], [BufferRole(0, 0)])
        refusal(lambda: buffer.copy_to(create_ashmem(TENSOR_BYTES)), FAILURE)
    report = replayed(path, device)
    assert report.failures == []
    assert report.left_out == {"requests that were refused": 1}
    assert len(report.outcomes) == 4


def test_a_status_that_is_another_is_a_difference(device: Endpoint, story: Path, tmp_path: Path) -> None:
    faults = tmp_path / "faults.toml"
    faults.write_text('[[fault]]\nwhat = "error"\nstatus = "RESOURCE_EXHAUSTED_TRANSIENT"\nnth = 2\n')
    with recordable_device(tmp_path, "--allow-faults", f"--faults={faults}") as faulty:
        (difference,) = replayed(story, faulty).failures
        assert difference.reason.startswith("RESOURCE_EXHAUSTED_TRANSIENT: injected fault")
    again = tmp_path / "again.nnrec"
    with (
        recordable_device(tmp_path, "--allow-faults", f"--faults={faults}") as faulty,
        recording(faulty, again),
        RemoteDevice(faulty, "a client") as remote,
        pytest.raises(HalError),
    ):
        run_on(remote, STORY, [[INPUT], [INPUT]])
    (difference,) = replayed(again, device).failures
    assert difference.reason == "it succeeds, expected RESOURCE_EXHAUSTED_TRANSIENT"


def test_a_state_in_buffers_is_carried_through_a_replay(device: Endpoint, tmp_path: Path) -> None:
    path = tmp_path / "a.nnrec"
    memory = create_ashmem(TENSOR_BYTES)
    pool = open_pool(memory, writable=True)
    with RemoteDevice(device, "a client") as remote:
        prepared = remote.prepare_model(addition_model())
        states = [remote.allocate([prepared], [BufferRole(0, 0)], [BufferRole(0, 0)]) for _ in range(2)]
        pool.write(0, np.full(16, 5, np.float32).view(np.uint8))
        states[0].copy_from(memory)  # before the recording begins
        addition = addition_in_ashmem()
        addition.fill(0, 1)
        with recording(device, path):
            for _ in range(3):
                given, taken = (RequestArgument(DataLocation(place)) for place in (1, 2))
                tokens = (states[0].token, states[1].token)
                request = replace(
                    addition.request,
                    inputs=(given, addition.request.inputs[1]),
                    outputs=(taken,),
                    pools=(*addition.request.pools, *tokens),
                )
                prepared.execute(request)
                states.reverse()
            states[0].copy_to(memory)
    assert pool.read(0, TENSOR_BYTES).view(np.float32).tolist() == [8.0] * 16
    report = replayed(path, device)
    assert report.failures == []
    assert [outcome.name.split()[0] for outcome in report.outcomes][-1] == "Buffer.CopyTo"


@pytest.mark.parametrize("omissions", [Omissions(contents=True), Omissions(weights=True), Omissions(names=True)])
def test_what_was_left_out_is_not_compared_and_said(device: Endpoint, tmp_path: Path, omissions: Omissions) -> None:
    path = tmp_path / "a.nnrec"
    with recording(device, path, omissions), RemoteDevice(device, "a client") as remote:
        run_on(remote, STORY, [[INPUT]])
    report = replayed(path, device)
    assert report.failures == []
    assert bool(report.left_out) == omissions.contents
    assert any(note.startswith("left out: ") for note in report.notes)


def test_empty_values_are_recorded_as_empty(device: Endpoint, tmp_path: Path) -> None:
    path = tmp_path / "a.nnrec"
    recipe, code, index = Recipe(), OperandType.TENSOR_FLOAT32, OperandType.TENSOR_INT32
    value = recipe.input(code, (4,))
    begin, size = recipe.input(index, (1,)), recipe.input(index, (1,))
    model = recipe.build(recipe.operation(OperationType.SLICE, [value, begin, size], Operand(code, (0,)))).model
    with recording(device, path) as recorded, RemoteDevice(device, "a client") as remote:
        (result,) = run_on(remote, model, [[INPUT, np.array([1], np.int32), np.array([0], np.int32)]])
    assert result[0].size == 0
    (execution,) = (one.event.execution for one in recorded.calls() if one.event.HasField("execution"))
    assert [content.size for content in execution.outputs] == [0]
    report = replayed(path, device)
    assert (report.failures, executions(report)) == ([], 1)


def test_requests_with_memory_that_was_not_valid_are_left_out(device: Endpoint, tmp_path: Path) -> None:
    path = tmp_path / "a.nnrec"
    with recording(device, path), RemoteDevice(device, "a client") as remote:
        prepared = remote.prepare_model(addition_model())
        request = addition_in_ashmem().request
        (pool,) = request.pools
        assert isinstance(pool, Ashmem)
        short = replace(request, pools=(replace(pool, size=1 << 20),))
        refusal(lambda: prepared.execute(short), INVALID, "the file behind it has")
    report = replayed(path, device)
    assert report.failures == []
    assert report.left_out == {"requests that were refused": 1}
