"""Devices that are killed, and what a client with resilient objects sees of it."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError, HalError
from nnhal.memory import create_ashmem
from nnhal.remote import CompilationCache, RemoteDevice
from nnhal.remote.resilient import ResilientDevice, ResilientPreparedModel
from nnhal.types import BufferRole, ErrorStatus, ExecutionPreference, Priority, Request, TokenValuePair
from nnhal.v1 import device_pb2, types_pb2
from tests.support.additions import addition_in_ashmem, addition_model
from tests.support.processes import device_process
from tests.support.refusals import FAILURE, INVALID, refusal
from tests.support.scripted import Script, ScriptedDevice, kill, refuse, scripted_process

THREADS = 6
WITH_CONFIG, FROM_CACHE = "Device.PrepareModelWithConfig", "Device.PrepareModelFromCache"


@dataclass
class Scene:
    """A device that can be killed, and one that is found when it is looked for again."""

    device: ResilientDevice
    process: subprocess.Popen[bytes]
    second: Callable[[Script | None], ScriptedDevice]

    def die(self, script: Script | None = None) -> ScriptedDevice:
        """Kill the device; the one that is found instead."""
        second = self.second(script)
        kill(self.process)
        return second


@pytest.fixture
def scene(short_path: Path) -> Iterator[Scene]:
    """The device that is found instead is served by the test, which so sees what it is asked."""
    with ExitStack() as stack:
        process, first = stack.enter_context(scripted_process(short_path / "first"))
        places = [first]
        device = stack.enter_context(ResilientDevice(lambda: RemoteDevice(places[-1], "test")))

        def serve(script: Script | None) -> ScriptedDevice:
            places.append(Endpoint(short_path / "second"))
            return stack.enter_context(ScriptedDevice(places[-1], script))

        yield Scene(device, process, serve)


@pytest.mark.contract("RS-08")
def test_a_call_goes_to_the_device_that_came_back(scene: Scene) -> None:
    first = scene.device.current
    second = scene.die()
    assert scene.device.use(lambda device: device.supported_operations(addition_model())) == [True]
    assert second.count("Device.GetSupportedOperations") == 1
    assert scene.device.current is not first
    with pytest.raises(DeadObjectError):
        first.version()


@pytest.mark.contract("RS-08")
def test_of_several_threads_that_find_it_dead_one_acquires_it(scene: Scene) -> None:
    first, all_know = scene.device.current, threading.Barrier(THREADS)
    second = scene.die()

    def ask(device: RemoteDevice) -> list[bool]:
        try:
            return device.supported_operations(addition_model())
        finally:
            if device is first:
                all_know.wait()

    with ThreadPoolExecutor(THREADS) as pool:
        calls = [pool.submit(scene.device.use, ask) for _ in range(THREADS)]
        assert [call.result() for call in calls] == [[True]] * THREADS
    assert second.count("Device.GetVersionString") == 1
    assert len(second.sessions.all()) == 1


@pytest.mark.contract("RS-08")
def test_the_death_is_told_where_nothing_came_back(scene: Scene) -> None:
    kill(scene.process)
    with pytest.raises(DeadObjectError) as caught:
        scene.device.use(lambda device: device.prepare_model(addition_model()))
    assert "no link at" not in str(caught.value)
    assert isinstance(caught.value.__cause__, DeadObjectError)
    scene.second(None)
    scene.device.prepare_model(addition_model())


CHANGES: dict[str, Script] = {
    "version": {"Device.GetVersionString": device_pb2.GetVersionStringResponse(version="scripted-2")},
    "type": {"Device.GetType": device_pb2.GetTypeResponse(type=types_pb2.DEVICE_TYPE_GPU)},
    "extensions": {
        "Device.GetSupportedExtensions": device_pb2.GetSupportedExtensionsResponse(
            extensions=[types_pb2.Extension(name="a.b")]
        )
    },
    "cache_files": {
        "Device.GetNumberOfCacheFilesNeeded": device_pb2.GetNumberOfCacheFilesNeededResponse(
            number_of_cache_files=types_pb2.NumberOfCacheFiles(num_model_cache=1)
        )
    },
}


@pytest.mark.contract("DV-14", "RS-09")
@pytest.mark.parametrize("what", CHANGES)
def test_another_device_in_its_place_is_not_continued_with(scene: Scene, what: str) -> None:
    identity = scene.device.identity
    prepared, request = scene.device.prepare_model(addition_model()), addition_in_ashmem().request
    execution, buffer = (
        prepared.create_reusable_execution(request),
        scene.device.allocate([prepared], [BufferRole(0, 0)]),
    )
    second = scene.die(CHANGES[what])
    calls: list[Callable[[], object]] = [
        execution.execute,
        lambda: scene.device.use(RemoteDevice.version),
        lambda: scene.device.prepare_model(addition_model()),
        lambda: prepared.execute(request),
        prepared.configure_execution_burst,
        execution.execute,
        lambda: buffer.copy_to(create_ashmem(64)),
        lambda: buffer.token,
    ]
    for call in calls:
        refusal(call, FAILURE, f"was 'scripted-1'; what answers there now .* differs in {what}")
    assert scene.device.identity is identity
    assert {name.partition(".Get")[0] for name, _ in second.calls} == {"Device"}
    for release in (prepared.release, execution.release, buffer.release):
        release()


@pytest.mark.contract("RS-08")
def test_a_device_that_comes_back_and_answers_nonsense_has_not_come_back(scene: Scene) -> None:
    scene.die({"Device.GetType": device_pb2.GetTypeResponse()})
    with pytest.raises(DeadObjectError) as caught:
        scene.device.use(lambda device: device.prepare_model(addition_model()))
    assert isinstance(caught.value.__cause__, HalError)


def test_a_device_that_is_to_be_refused_is_not_acquired(short_path: Path) -> None:
    endpoint = Endpoint(short_path / "device")
    with ScriptedDevice(endpoint, {"Device.GetType": device_pb2.GetTypeResponse()}) as device:
        refusal(lambda: ResilientDevice(lambda: RemoteDevice(endpoint, "test")), FAILURE, "device type 0")
        assert device.count("Device.GetType") == 1


@pytest.mark.contract("RS-10")
def test_a_model_is_prepared_again_with_all_that_it_was_prepared_with_but_its_deadline(scene: Scene) -> None:
    prepared = scene.device.prepare_model(
        addition_model(),
        ExecutionPreference.SUSTAINED_SPEED,
        Priority.HIGH,
        deadline_ns=2**62,
        hints=[TokenValuePair(65536, b"x")],
    )
    second = scene.die()
    for _ in range(2):
        prepared.execute(addition_in_ashmem().request)
    (request,) = second.requests(WITH_CONFIG)
    config = request.config
    assert (config.preference, config.priority, config.deadline_ns) == (2, 2, -1)
    assert [(hint.token, hint.value) for hint in config.compilation_hints] == [(65536, b"x")]
    assert len(request.model.main.operations) == 1
    assert second.count("PreparedModel.ExecuteSynchronouslyWithConfig") == 2


def cache() -> CompilationCache:
    """A cache entry."""
    return CompilationCache((create_ashmem(64).descriptor,), (), b"t" * 32)


@pytest.mark.contract("RS-10")
@pytest.mark.parametrize(
    ("script", "expected"),
    [({}, [FROM_CACHE]), ({FROM_CACHE: refuse(HalError(FAILURE, "stale"))}, [FROM_CACHE, WITH_CONFIG])],
    ids=["good cache", "stale cache"],
)
def test_a_model_with_a_cache_is_prepared_from_it_first(scene: Scene, script: Script, expected: list[str]) -> None:
    prepared = scene.device.prepare_model(addition_model(), cache=cache())
    second = scene.die(script)
    prepared.execute(addition_in_ashmem().request)
    assert [name for name, _ in second.calls if name in (WITH_CONFIG, FROM_CACHE)] == expected
    assert all(request.token == b"t" * 32 for request in second.requests(FROM_CACHE))
    assert all(request.config.cache_token == b"t" * 32 for request in second.requests(WITH_CONFIG))


@pytest.mark.contract("RS-10")
def test_a_model_that_only_the_cache_knows_is_prepared_from_it_again(scene: Scene) -> None:
    prepared = scene.device.prepare_model_from_cache(cache(), deadline_ns=2**62)
    second = scene.die()
    prepared.execute(addition_in_ashmem().request)
    assert [request.deadline_ns for request in second.requests(FROM_CACHE)] == [-1]


def everything_of(prepared: ResilientPreparedModel, request: Request) -> dict[str, Callable[[], Any]]:
    """Each call on a prepared model."""
    return {
        "execute": lambda: prepared.execute(request),
        "fenced": lambda: prepared.execute_fenced(request),
        "reusable": lambda: prepared.create_reusable_execution(request),
        "burst": prepared.configure_execution_burst,
    }


@pytest.mark.contract("RS-10")
@pytest.mark.parametrize("call", ["execute", "fenced", "reusable", "burst"])
def test_every_call_on_a_prepared_model_survives_the_death(scene: Scene, call: str) -> None:
    prepared = scene.device.prepare_model(addition_model())
    second = scene.die()
    everything_of(prepared, addition_in_ashmem().request)[call]()
    assert second.count(WITH_CONFIG) == 1


@pytest.mark.contract("RS-10")
def test_a_model_that_cannot_be_prepared_again_leaves_the_death_to_be_told(scene: Scene) -> None:
    prepared = scene.device.prepare_model(addition_model())
    scene.die({WITH_CONFIG: refuse(HalError(FAILURE, "no room"))})
    with pytest.raises(DeadObjectError) as caught:
        prepared.execute(addition_in_ashmem().request)
    assert isinstance(caught.value.__cause__, HalError)


@pytest.mark.contract("RS-11")
def test_an_execution_is_created_again_from_its_request(scene: Scene) -> None:
    prepared, addition = scene.device.prepare_model(addition_model()), addition_in_ashmem()
    execution = prepared.create_reusable_execution(addition.request)
    execution.execute()
    second = scene.die()
    for _ in range(2):
        execution.execute()
    (request,) = second.requests("PreparedModel.CreateReusableExecution")
    assert len(request.request.inputs) == 2
    assert second.count("Execution.ExecuteSynchronously") == 2
    assert second.count(WITH_CONFIG) == 1


@pytest.mark.contract("RS-11")
def test_a_buffer_is_allocated_again_for_its_roles_and_holds_nothing(scene: Scene) -> None:
    uninitialised = HalError(FAILURE, "the buffer is uninitialised")
    prepared = [scene.device.prepare_model(addition_model()) for _ in range(2)]
    buffer = scene.device.allocate(prepared, [BufferRole(0, 1)], [BufferRole(1, 0, 0.5)], (16,))
    memory = create_ashmem(64)
    buffer.copy_from(memory)
    buffer.copy_to(memory)
    second = scene.die({"Buffer.CopyTo": refuse(uninitialised)})
    refusal(lambda: buffer.copy_to(memory), FAILURE, "uninitialised")
    buffer.copy_from(memory)
    (request,) = second.requests("Device.Allocate")
    assert (list(request.desc.dimensions), len(request.prepared_models)) == ([16], 2)
    assert [(role.model_index, role.io_index) for role in request.input_roles] == [(0, 1)]
    assert [(role.model_index, role.io_index) for role in request.output_roles] == [(1, 0)]
    assert second.count(WITH_CONFIG) == 2
    (copied,) = second.requests("Buffer.CopyFrom")
    assert buffer.token == copied.buffer + 1  # that is how these devices number them


@pytest.mark.contract("RS-11")
def test_the_token_of_a_buffer_is_never_that_of_a_dead_device(scene: Scene) -> None:
    prepared = scene.device.prepare_model(addition_model())
    buffer = scene.device.allocate([prepared], [BufferRole(0, 0)])
    second = scene.die()
    assert buffer.token > 0
    assert second.count("Device.Allocate") == 1


@pytest.mark.contract("RS-11")
def test_a_request_that_names_buffers_is_not_tried_again(scene: Scene) -> None:
    prepared = scene.device.prepare_model(addition_model())
    buffer = scene.device.allocate([prepared], [BufferRole(0, 0)])
    request = replace(addition_in_ashmem().request, pools=(buffer.token,))
    execution = prepared.create_reusable_execution(request)
    second = scene.die()
    with pytest.raises(DeadObjectError):
        prepared.execute(request)
    with pytest.raises(DeadObjectError):
        execution.execute()
    assert second.calls == []
    prepared.execute(replace(request, pools=(buffer.token,)))
    assert second.count("PreparedModel.ExecuteSynchronouslyWithConfig") == 1


@pytest.mark.contract("RS-12")
@pytest.mark.parametrize("status", [ErrorStatus.DEVICE_UNAVAILABLE, INVALID, FAILURE], ids=lambda status: status.name)
def test_an_error_of_a_living_device_is_not_recovered_from(short_path: Path, status: ErrorStatus) -> None:
    endpoint = Endpoint(short_path / "device")
    script = {"PreparedModel.ExecuteSynchronouslyWithConfig": refuse(HalError(status, "not this one"))}
    with ScriptedDevice(endpoint, script) as other_side, ResilientDevice(lambda: RemoteDevice(endpoint)) as device:
        prepared = device.prepare_model(addition_model())
        refusal(lambda: prepared.execute(addition_in_ashmem().request), status, "not this one")
        assert other_side.count("Device.GetVersionString") == 1
        assert other_side.count(WITH_CONFIG) == 1
        assert other_side.count("PreparedModel.ExecuteSynchronouslyWithConfig") == 1


@pytest.mark.contract("RS-13")
def test_a_burst_dies_with_its_device_and_another_one_can_be_configured(scene: Scene) -> None:
    prepared, request = scene.device.prepare_model(addition_model()), addition_in_ashmem().request
    burst = prepared.configure_execution_burst()
    burst.execute(request)
    second = scene.die()
    for _ in range(2):
        with pytest.raises(DeadObjectError):
            burst.execute(request)
    prepared.configure_execution_burst().execute(request)
    assert len(second.burst_calls) == 1


@pytest.mark.contract("RS-08", "RS-10", "RS-11")
def test_sums_are_right_before_and_after_a_device_was_killed(short_path: Path) -> None:
    addition = addition_in_ashmem()
    with ExitStack() as stack:
        child, endpoint = stack.enter_context(device_process("cpu_ref", short_path))
        device = stack.enter_context(ResilientDevice(lambda: RemoteDevice(endpoint, "test")))
        prepared = device.prepare_model(addition_model())
        execution = prepared.create_reusable_execution(addition.request)
        addition.check(execution.execute, 1, 2)
        child.process.kill()
        child.process.wait()
        stack.enter_context(device_process("cpu_ref", short_path))
        addition.check(execution.execute, 3, 4)
        addition.check(lambda: prepared.execute(addition.request), 5, 6)
