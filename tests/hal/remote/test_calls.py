"""Failures between a client and a device, and the errors that the client gets."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest

from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError, HalError, TransportError
from nnhal.memory import create_ashmem
from nnhal.remote import CompilationCache, RemoteDevice
from nnhal.types import BufferRole, ErrorStatus
from tests.support.additions import addition_in_ashmem, addition_model
from tests.support.scripted import HEALTHY, Behaviour, Call, Serve, hang, kill, refuse, scripted_process

FAILING = [status for status in ErrorStatus if status]


def every_call(device: RemoteDevice) -> dict[str, Callable[[], object]]:
    """Return each call of the HAL by its method, with objects that were made before the trouble."""
    model, request, memory = addition_model(), addition_in_ashmem().request, create_ashmem(64)
    prepared = device.prepare_model(model)
    execution, buffer = prepared.create_reusable_execution(request), device.allocate([prepared], [BufferRole(0, 0)])
    return {
        "Device.GetVersionString": device.version,
        "Device.GetType": device.device_type,
        "Device.GetCapabilities": device.capabilities,
        "Device.GetSupportedExtensions": device.supported_extensions,
        "Device.GetNumberOfCacheFilesNeeded": device.number_of_cache_files_needed,
        "Device.GetSupportedOperations": partial(device.supported_operations, model),
        "Device.PrepareModelWithConfig": partial(device.prepare_model, model),
        "Device.PrepareModelFromCache": partial(device.prepare_model_from_cache, CompilationCache()),
        "Device.Allocate": partial(device.allocate, [prepared], [BufferRole(0, 0)]),
        "PreparedModel.ExecuteSynchronouslyWithConfig": partial(prepared.execute, request),
        "PreparedModel.ExecuteFencedWithConfig": partial(prepared.execute_fenced, request),
        "PreparedModel.CreateReusableExecution": partial(prepared.create_reusable_execution, request),
        "PreparedModel.ConfigureExecutionBurst": prepared.configure_execution_burst,
        "Execution.ExecuteSynchronously": execution.execute,
        "Buffer.CopyFrom": partial(buffer.copy_from, memory),
        "Buffer.CopyTo": partial(buffer.copy_to, memory),
    }


METHODS = [method for method in HEALTHY if not method.endswith(".Release")]


def at_will(method: str, trouble: list[Behaviour]) -> Behaviour:
    """Answer like a healthy device as long as ``trouble`` is empty."""
    healthy = HEALTHY[method]

    def behaviour(request: Any, call: Call) -> Any:
        if trouble:
            return trouble[0](request, call)
        return healthy(request, call) if callable(healthy) else healthy

    return behaviour


@pytest.mark.contract("RS-01")
def test_a_failure_of_the_transport_differs_from_a_device_error(scripted: Serve) -> None:
    def breaks(request: Any, call: Call) -> None:
        call.context.abort(grpc.StatusCode.INTERNAL, "the wire broke")

    trouble: list[Behaviour] = []
    device, _ = scripted({method: at_will(method, trouble) for method in METHODS})
    calls = every_call(device)
    assert calls.keys() == set(METHODS)
    trouble.append(breaks)
    for call in calls.values():
        with pytest.raises(TransportError, match="INTERNAL: the wire broke") as caught:
            call()
        assert not isinstance(caught.value, DeadObjectError)


def garbage(request: Any, _: Call) -> bytes | list[bytes]:
    """Answer with bytes that are not a message."""
    nonsense = b"\xff" * 8
    return [nonsense] if type(request).__name__.startswith("PrepareModel") else nonsense


@pytest.mark.contract("RS-01", "RS-04")
def test_an_answer_that_is_no_message_is_a_failure_of_the_transport(scripted: Serve) -> None:
    trouble: list[Behaviour] = []
    device, _ = scripted({method: at_will(method, trouble) for method in METHODS})
    calls = every_call(device)
    trouble.append(garbage)
    for call in calls.values():
        with pytest.raises(TransportError, match="deserializ"):
            call()


@pytest.mark.contract("RS-03")
@pytest.mark.parametrize("status", FAILING, ids=lambda status: status.name)
def test_a_device_error_arrives_unchanged(scripted: Serve, status: ErrorStatus) -> None:
    trouble: list[Behaviour] = []
    device, _ = scripted({method: at_will(method, trouble) for method in METHODS})
    calls = every_call(device)
    trouble.append(refuse(HalError(status, "got this, expected that")))
    for call in calls.values():
        with pytest.raises(HalError) as caught:
            call()
        assert (caught.value.status, caught.value.message) == (status, "got this, expected that")


@pytest.mark.contract("RS-02")
def test_every_call_on_a_dead_device_says_so(short_path: Path) -> None:
    with scripted_process(short_path) as (process, endpoint), RemoteDevice(endpoint, "test") as device:
        calls = every_call(device)
        kill(process)
        for call in calls.values():
            with pytest.raises(DeadObjectError):
                call()
        assert device.gone


@pytest.mark.contract("RS-02")
@pytest.mark.parametrize("method", METHODS)
def test_a_device_that_dies_of_a_call_ends_it(short_path: Path, method: str) -> None:
    with (
        scripted_process(short_path, dies_at=method) as (_, endpoint),
        RemoteDevice(endpoint, "test") as device,
        pytest.raises(DeadObjectError),
    ):
        every_call(device)[method]()


@pytest.mark.contract("RS-02")
def test_objects_of_a_dead_device_are_dead_though_another_one_serves_in_its_place(short_path: Path) -> None:
    with scripted_process(short_path) as (process, endpoint), RemoteDevice(endpoint, "test") as device:
        calls = {method: call for method, call in every_call(device).items() if not method.startswith("Device.Get")}
        kill(process)
        with scripted_process(short_path) as (second, _):
            for call in calls.values():
                with pytest.raises(DeadObjectError):
                    call()
            with RemoteDevice(endpoint, "test") as fresh:
                assert fresh.pid == second.pid
                fresh.prepare_model(addition_model())


def test_a_session_that_was_closed_says_so(scripted: Serve) -> None:
    device, _ = scripted()
    calls = every_call(device)
    device.close()
    for call in calls.values():
        with pytest.raises(DeadObjectError):
            call()


def test_a_getter_that_is_not_answered_in_time_is_a_failure_of_the_transport(scripted: Serve) -> None:
    device, _ = scripted({"Device.GetType": hang})
    with pytest.raises(TransportError, match="DEADLINE_EXCEEDED"):
        device.device_type(timeout=0.1)
    device.version(timeout=30)


def test_prepared_models_of_another_session_are_not_taken_for_ones_own(scripted: Serve) -> None:
    device, scripted_device = scripted()
    with RemoteDevice(scripted_device.endpoint, "other") as other:
        foreign = other.prepare_model(addition_model())
        with pytest.raises(HalError, match="prepared model 0 belongs to another session") as caught:
            device.allocate([foreign], [BufferRole(0, 0)])
        assert caught.value.status == ErrorStatus.INVALID_ARGUMENT
    with pytest.raises(DeadObjectError, match="session of prepared model 0 has ended"):
        device.allocate([foreign], [BufferRole(0, 0)])


def test_a_device_that_is_not_there_is_dead(short_path: Path) -> None:
    with pytest.raises(DeadObjectError, match="no link at"):
        RemoteDevice(Endpoint(short_path / "nobody"))
