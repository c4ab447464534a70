"""Recordings of a device: every call in every way, what is left out, and who may."""

from __future__ import annotations

import os
import resource
import signal
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nnhal.endpoint import Endpoint
from nnhal.memory import create_ashmem, open_pool
from nnhal.recording import read_device_recording, restored_model
from nnhal.remote import RemoteDevice
from nnhal.remote.recordings import Omissions, RecordingControl
from nnhal.resolved import inline_constants
from nnhal.types import BufferRole, DataLocation, ErrorStatus, Model
from nnhal.v1 import recording_pb2
from tests.support.additions import (
    TENSOR_BYTES,
    addition_in_ashmem,
    addition_model,
    addition_of_constant,
    additions_in_a_cycle,
)
from tests.support.faulty import METHODS_OF_WAYS, execution_in
from tests.support.processes import device_process
from tests.support.recordings import Recorded, recordable_device, recording
from tests.support.refusals import FAILURE, INVALID, refusal
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def device() -> Iterator[Endpoint]:
    with tempfile.TemporaryDirectory(prefix="nnhal-") as directory, recordable_device(Path(directory)) as endpoint:
        yield endpoint


def values(recorded: Recorded, contents: Iterable[recording_pb2.RecordedContent]) -> list[list[float]]:
    with recorded.read() as read:
        return [np.frombuffer(read.content(content), np.float32).tolist() for content in contents]


@pytest.mark.parametrize("way", METHODS_OF_WAYS)
def test_every_way_of_execution_is_recorded_with_its_values(device: Endpoint, tmp_path: Path, way: str) -> None:
    with recording(device, tmp_path / "a.nnrec") as recorded, execution_in(way, device) as execute:
        execute()
        execute()
    executions = [one for one in recorded.calls(METHODS_OF_WAYS[way]) if one.event.WhichOneof("about") == "execution"]
    assert len(executions) == 2 * (2 if way == "chain" else 1)
    requests = {one.event.request.request for one in recorded.calls() if one.event.request.request}
    for one in executions:
        assert ErrorStatus(one.event.status) == ErrorStatus.NONE
        assert one.event.execution.request in requests
        assert one.started_ns < one.ended_ns
        first, second = values(recorded, one.event.execution.inputs)
        (total,) = values(recorded, one.event.execution.outputs)
        assert total == np.add(first, second).tolist()
    assert (recorded.figures.dropped_calls, recorded.figures.dropped_contents, recorded.figures.failure) == (0, 0, "")


def test_a_model_is_recorded_whole_and_comes_back(device: Endpoint, tmp_path: Path) -> None:
    pool = create_ashmem(TENSOR_BYTES)
    open_pool(pool, writable=True).write(0, np.arange(16, dtype=np.float32).view(np.uint8))
    with recording(device, tmp_path / "a.nnrec") as recorded, RemoteDevice(device, "a client") as remote:
        remote.prepare_model(addition_of_constant(pool)).release()
    (opened,) = recorded.calls("Session.Open")
    assert opened.event.session_opened.client_name == "a client"
    (prepared,) = recorded.calls("Device.PrepareModelWithConfig")
    with recorded.read() as read:
        model = restored_model(prepared.event.preparation.model, read.content)
    (restored,) = (open_pool(memory, writable=False) for memory in model.pools)
    constants = inline_constants(model, {0: restored.read(0, TENSOR_BYTES)})[0]
    assert constants[1].tolist() == np.arange(16).tolist()
    (released,) = recorded.calls("PreparedModel.Release")
    assert released.event.release.prepared_model == prepared.event.preparation.prepared_model == 1


def test_what_a_device_refuses_is_recorded_with_what_it_has_said(device: Endpoint, tmp_path: Path) -> None:
    with recording(device, tmp_path / "a.nnrec") as recorded, RemoteDevice(device, "a client") as remote:
        refusal(lambda: remote.prepare_model(additions_in_a_cycle()), INVALID)
        prepared = remote.prepare_model(addition_model())
        request = addition_in_ashmem().of_one_term
        refusal(lambda: prepared.execute(request), INVALID)
        refusal(lambda: prepared.create_reusable_execution(request), INVALID)
        burst = prepared.configure_execution_burst()
        refusal(lambda: burst.execute(request), INVALID)
        burst.close()
        refusal(lambda: remote.allocate([prepared], [BufferRole(0, 7)]), INVALID)
    refused = [(one.event.method, one.event.WhichOneof("about")) for one in recorded.calls() if one.event.status]
    assert refused == [
        ("Device.PrepareModelWithConfig", "preparation"),
        ("PreparedModel.ExecuteSynchronouslyWithConfig", "request"),
        ("PreparedModel.CreateReusableExecution", "request"),
        ("Channel.Burst", "request"),
        ("Device.Allocate", "allocation"),
    ]
    assert all(one.event.message for one in recorded.calls() if one.event.status)


def test_buffers_are_recorded_with_what_is_copied(device: Endpoint, tmp_path: Path) -> None:
    memory = create_ashmem(TENSOR_BYTES)
    open_pool(memory, writable=True).write(0, np.full(16, 3, np.float32).view(np.uint8))
    with recording(device, tmp_path / "a.nnrec") as recorded, RemoteDevice(device, "a client") as remote:
        buffer = remote.allocate([remote.prepare_model(addition_model())], [BufferRole(0, 0)])
        refusal(lambda: buffer.copy_to(memory), FAILURE)
        buffer.copy_from(memory)
        buffer.copy_to(memory)
        buffer.release()
    (allocated,) = recorded.calls("Device.Allocate")
    assert (allocated.event.allocation.buffer, list(allocated.event.allocation.prepared_models)) == (1, [1])
    (copied,) = recorded.calls("Buffer.CopyFrom")
    failed, read = recorded.calls("Buffer.CopyTo")
    assert [ErrorStatus(one.event.status) for one in (failed, read)] == [FAILURE, ErrorStatus.NONE]
    assert values(recorded, [copied.event.copy.value, read.event.copy.value]) == 2 * [[3.0] * 16]
    (released,) = recorded.calls("Buffer.Release")
    assert released.event.release.buffer == 1


def test_what_was_there_before_is_recorded_when_it_is_used(device: Endpoint, tmp_path: Path) -> None:
    memory = create_ashmem(TENSOR_BYTES)
    addition = addition_in_ashmem()
    with RemoteDevice(device, "earlier") as remote:
        prepared = remote.prepare_model(addition_model())
        unused = remote.prepare_model(addition_model(operations=2))
        buffer = remote.allocate([prepared], [BufferRole(0, 1)])
        buffer.copy_from(memory)
        request = replace(
            addition.request,
            inputs=(addition.request.inputs[0], replace(addition.request.inputs[1], location=in_pool(1))),
            pools=(*addition.request.pools, buffer.token),
        )
        execution, burst = prepared.create_reusable_execution(request), prepared.configure_execution_burst()
        with recording(device, tmp_path / "a.nnrec") as recorded:
            burst.run(execution)
        burst.close()
        unused.release()
    events = [call.event for call in recorded.calls()]
    assert [event.preparation.is_earlier for event in events if event.HasField("preparation")] == [True]
    (allocation,) = (event.allocation for event in events if event.HasField("allocation"))
    assert allocation.is_earlier
    assert values(recorded, [allocation.value]) == [[0.0] * 16]
    assert [event.method for event in events if event.HasField("execution")] == ["Channel.Burst"]
    assert recorded.figures.calls == 2  # the request, and its execution


def in_pool(index: int) -> DataLocation:
    return DataLocation(index)


def test_contents_weights_and_names_can_be_left_out(device: Endpoint, tmp_path: Path) -> None:
    left_out = Omissions(contents=True, weights=True, names=True)
    with recording(device, tmp_path / "a.nnrec", left_out) as recorded, RemoteDevice(device, "secret") as remote:
        prepared = remote.prepare_model(addition_model())
        burst = prepared.configure_execution_burst()
        execution = prepared.create_reusable_execution(addition_in_ashmem().request)
        for _ in range(50):
            burst.run(execution)
        burst.close()
        refusal(lambda: prepared.execute(addition_in_ashmem().of_one_term), INVALID)
        buffer = remote.allocate([prepared], [BufferRole(0, 0)])
        buffer.copy_from(create_ashmem(TENSOR_BYTES))
    assert b"secret" not in (tmp_path / "a.nnrec").read_bytes()
    events = [call.event for call in recorded.calls()]
    assert {event.message for event in events} == {""}
    assert len([event for event in events if event.method == "Channel.Burst"]) == 50
    (copied,) = (event.copy.value for event in events if event.HasField("copy"))
    assert (copied.size, copied.is_left_out) == (TENSOR_BYTES, True)
    assert recorded.figures.dropped_contents == 0  # what is to be left out is not missed


def test_large_constants_keep_their_digest_if_weights_are_left_out(device: Endpoint, tmp_path: Path) -> None:
    left_out = Omissions(weights=True)
    with recording(device, tmp_path / "a.nnrec", left_out) as recorded, RemoteDevice(device, "a client") as remote:
        remote.prepare_model(addition_of_weights())
    (prepared,) = recorded.calls("Device.PrepareModelWithConfig")
    sizes = [(one.value.size, one.value.is_left_out) for one in prepared.event.preparation.model.constants]
    assert sorted(sizes) == [(4, False), (4 * 2048, True)]
    assert all(len(one.value.digest) == 32 for one in prepared.event.preparation.model.constants)


def addition_of_weights() -> Model:
    elements = 2048
    model = addition_model(elements)
    pool = create_ashmem(4 * elements)
    constant = addition_of_constant(pool).main.operands[1]
    operands = list(model.main.operands)
    operands[1] = replace(constant, dimensions=(elements,), location=replace(constant.location, length=4 * elements))
    return replace(model, main=replace(model.main, operands=tuple(operands), input_indexes=(0,)), pools=(pool,))


def test_what_comes_too_fast_is_dropped_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNHAL_DEVICE_RECORDING_CALLS", "1")
    monkeypatch.setenv("NNHAL_DEVICE_RECORDING_BYTES", str(TENSOR_BYTES))
    with recordable_device(tmp_path) as endpoint, RemoteDevice(endpoint, "a client") as remote:
        prepared = remote.prepare_model(addition_model())
        execution = prepared.create_reusable_execution(addition_in_ashmem().request)
        burst = prepared.configure_execution_burst()
        with recording(endpoint, tmp_path / "a.nnrec") as recorded:
            for _ in range(200):
                burst.run(execution)
        burst.close()
    figures = recorded.figures
    assert figures.dropped_calls > 0
    assert figures.dropped_contents > 0
    assert figures.calls + figures.dropped_calls >= 200
    with recorded.read() as read:
        assert read.end is not None
        assert (read.end.calls, read.end.dropped_calls) == (figures.calls, figures.dropped_calls)


def test_a_recording_of_a_device_that_dies_reaches_up_to_there(tmp_path: Path) -> None:
    path = tmp_path / "a.nnrec"
    with (
        device_process("cpu_ref", tmp_path, "--allow-recording") as (child, endpoint),
        RecordingControl(endpoint) as control,
    ):
        control.start(path)
        with RemoteDevice(endpoint, "a client") as remote:
            remote.prepare_model(addition_model())
        wait_until(lambda: control.figures().calls > 0, "the preparation is written")
        os.kill(child.pid, signal.SIGKILL)
    with read_device_recording(path) as read:
        assert read.end is None
        assert "Device.PrepareModelWithConfig" in [call.event.method for call in read.calls]


def test_a_file_that_cannot_be_written_ends_the_recording_with_the_reason_and_nothing_else(tmp_path: Path) -> None:
    with (
        device_process("cpu_ref", tmp_path, "--allow-recording") as (child, endpoint),
        RecordingControl(endpoint) as control,
        RemoteDevice(endpoint, "a client") as remote,
    ):
        control.start(tmp_path / "a.nnrec")
        resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (100, 100))  # as a full disk
        prepared = remote.prepare_model(addition_model())
        wait_until(lambda: control.figures().failure != "", "the recording fails")
        addition = addition_in_ashmem()
        addition.check(lambda: prepared.execute(addition.request), 1, 2)
        figures = control.stop()
    assert figures.failure == "the file cannot be written: File too large"
    assert figures.dropped_calls > 0


def test_a_recording_ends_with_the_session_that_has_begun_it(device: Endpoint, tmp_path: Path) -> None:
    path = tmp_path / "a.nnrec"
    with RecordingControl(device) as control:
        control.start(path)
        with RecordingControl(device) as other:
            refusal(lambda: other.start(tmp_path / "b"), ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT, "records already")
            refusal(other.stop, FAILURE, "this session records nothing")
    wait_until(lambda: Recorded(path).is_complete, "the recording ends")
    with recording(device, path):
        pass


def test_only_files_are_recorded_to(device: Endpoint) -> None:
    with RecordingControl(device) as control:
        refusal(lambda: control.start(Path("/dev/null")), INVALID)


def test_a_device_is_recorded_only_if_it_was_started_so(cpu_ref: Endpoint, tmp_path: Path) -> None:
    with RecordingControl(cpu_ref) as control:
        refusal(lambda: control.start(tmp_path / "a"), FAILURE, "--allow-recording")
