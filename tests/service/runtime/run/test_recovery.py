"""A device process that is killed and comes back: what the framework makes again of what it had there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError, NnhalError
from nnhal.memory import create_ashmem
from nnhal.remote import DeviceIdentity
from nnhal.types import DataLocation, ErrorStatus, ExecutionPreference, Hints, Priority, TokenValuePair
from nnhal.v1 import burst_pb2, device_pb2, types_pb2
from nnhal_service.frontends import import_model
from nnhal_service.partition import Fallback, Options, Pin, Strategy
from nnhal_service.runtime import ExecutionContext, Fleet, LoadedModel, TensorBinding, prepare
from nnhal_service.runtime.devices import fleet as fleet_module
from nnhal_service.runtime.devices import registration
from nnhal_service.runtime.memory.domains import AllocatedMemory, ModelRole, allocate
from tests.support.refusals import FAILURE, INVALID, refusal
from tests.support.scripted import (
    Script,
    ScriptedDevice,
    kill,
    scripted_process,
)
from tests.support.waiting import wait_until

THREADS = 6
PREPARE = "Device.PrepareModelWithConfig"
CREATE = "PreparedModel.CreateReusableExecution"
GETTERS = {"Device"}


def model() -> bytes:
    """y = tanh(x)."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Tanh", ["x"], ["y"], name="tanh")], "g", values[:1], values[1:])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(onnx.ModelProto.SerializeToString(proto))


class Scene:
    """A framework with a device npu, which can be killed, and cpu_ref."""

    def __init__(self, directory: Path, cpu_ref: Endpoint, stack: ExitStack) -> None:
        self._directory = directory
        self._stack = stack
        self.process, endpoint = stack.enter_context(scripted_process(directory / "npu"))
        self.fleet = Fleet({"npu": endpoint, "cpu_ref": cpu_ref})
        stack.callback(self.fleet.close)

    def load(self, fallback: Fallback = Fallback.ALLOW, **options: Any) -> LoadedModel:
        """The model, on npu."""
        options = {"pins": (Pin("name:*", "npu"),), "fallback": fallback, **options}
        prepared = prepare(import_model(model()), self.fleet, (), Options(Strategy.NNAPI, **options))
        assert [step.device for step in prepared.plan.steps] == ["npu"]
        loaded = LoadedModel(prepared)
        self._stack.callback(loaded.close)
        return loaded

    def die(self) -> None:
        """Kill npu."""
        kill(self.process)

    def come_back(self, script: Script | None = None) -> ScriptedDevice:
        """Serve npu again, from this process, which so sees what it is asked."""
        return self._stack.enter_context(ScriptedDevice(Endpoint(self._directory / "npu"), script))


@pytest.fixture
def scene(short_path: Path, cpu_ref: Endpoint) -> Iterator[Scene]:
    with ExitStack() as stack:
        yield Scene(short_path, cpu_ref, stack)


def bound(loaded: LoadedModel) -> ExecutionContext:
    """The model, tied to memory of its own."""
    x, y = TensorBinding("x", DataLocation(0, 0, 32)), TensorBinding("y", DataLocation(0, 64, 32))
    return loaded.bind([x], [y], [create_ashmem(128)])


def executed(device: ScriptedDevice) -> int:
    """How often a device has executed."""
    return len(device.burst_calls)


def wait_for_runs_on(device: ScriptedDevice, context: ExecutionContext, count: int) -> None:
    """Run until a device has executed so often: a plan without it may be ready before its return is noticed."""

    def has_run() -> bool:
        context.run()
        return executed(device) >= count

    wait_until(has_run, "runs are on the device again")


@pytest.mark.contract("RS-08", "RS-10")
def test_a_run_that_meets_a_dead_device_goes_on_where_it_has_come_back(scene: Scene) -> None:
    context = bound(scene.load())
    context.run()
    scene.die()
    second = scene.come_back()
    assert not context.run().fell_back
    assert (second.count("Device.GetVersionString"), len(second.sessions.all())) == (1, 1)
    assert (second.count(PREPARE), executed(second)) == (1, 1)
    wait_for_runs_on(second, context, 3)
    assert second.count(PREPARE) == 1


@pytest.mark.contract("RS-11")
def test_the_execution_of_a_dead_device_is_created_again_from_its_request(scene: Scene) -> None:
    context = bound(scene.load())
    context.run()
    scene.die()
    second = scene.come_back()
    wait_for_runs_on(second, context, 3)
    (request,) = second.requests(CREATE)
    (argument,) = request.request.inputs
    assert (argument.location.offset, argument.location.length) == (0, 32)
    first, *others = (call.WhichOneof("call") for call in second.burst_calls)
    assert (first, set(others)) == ("execute_with_config", {"run"})


@pytest.mark.contract("RS-08", "RS-10")
def test_of_several_runs_that_meet_a_dead_device_the_first_has_it_found_and_the_model_prepared(scene: Scene) -> None:
    loaded = scene.load()
    contexts = [bound(loaded) for _ in range(THREADS)]
    scene.die()
    second = scene.come_back()
    together = threading.Barrier(THREADS)

    def run(context: ExecutionContext) -> None:
        together.wait()
        context.run()

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(run, contexts))
    for context in contexts:
        wait_for_runs_on(second, context, executed(second) + 1)
    assert (second.count("Device.GetVersionString"), len(second.sessions.all())) == (1, 1)
    assert second.count(PREPARE) == 1


@pytest.mark.contract("RS-08", "RS-13")
def test_the_death_is_told_where_the_device_has_not_come_back(scene: Scene) -> None:
    context = bound(scene.load(Fallback.DENY))
    context.run()
    scene.die()
    for _ in range(2):
        with pytest.raises(DeadObjectError, match="the model needs npu, which is gone"):
            context.run()
    second = scene.come_back()
    context.run()
    assert executed(second) == 1


@pytest.mark.contract("RS-08")
def test_the_first_death_is_told_where_the_cpu_does_not_come_back(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (fleet_module, registration):
        monkeypatch.setattr(module, "RETURN_SECONDS", 0.2)
    with ExitStack() as stack:
        process, endpoint = stack.enter_context(scripted_process(short_path / "cpu_ref", dies_at=PREPARE))
        fleet = Fleet({"cpu_ref": endpoint})
        stack.callback(fleet.close)
        with pytest.raises(DeadObjectError) as caught:
            prepare(import_model(model()), fleet, (), Options(Strategy.NNAPI))
        assert process.wait() != 0
    assert "no link at" not in str(caught.value)


@pytest.mark.contract("RS-10")
def test_a_model_is_prepared_again_with_all_that_it_was_prepared_with_but_its_deadline(scene: Scene) -> None:
    hints = Hints((TokenValuePair(65536, b"x"),), ())
    context = bound(
        scene.load(
            preference=ExecutionPreference.SUSTAINED_SPEED, priority=Priority.HIGH, deadline_ns=2**62, hints=hints
        )
    )
    scene.die()
    second = scene.come_back()
    wait_for_runs_on(second, context, 2)
    (request,) = second.requests(PREPARE)
    config = request.config
    assert (config.preference, config.priority, config.deadline_ns) == (2, 2, -1)
    assert [(hint.token, hint.value) for hint in config.compilation_hints] == [(65536, b"x")]
    assert len(request.model.main.operations) == 1


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
def test_another_device_in_its_place_is_not_gone_on_with(scene: Scene, what: str) -> None:
    identity: DeviceIdentity = scene.fleet.get("npu").identity
    loaded = scene.load(Fallback.DENY)
    context, (part,) = bound(loaded), loaded.original.parts
    scene.die()
    second = scene.come_back(CHANGES[what])
    words = f"it was registered as 'scripted-1'; the process there now .* differs in {what}"
    with pytest.raises(NnhalError):
        context.run()
    calls: list[Callable[[], object]] = [
        context.run,
        lambda: bound(loaded),
        lambda: scene.fleet.get("npu"),
        context.run,
        lambda: allocate([ModelRole(loaded.original, False, 0)]),
    ]
    for call in calls[:-1]:
        refusal(call, ErrorStatus.DEVICE_UNAVAILABLE, words)
    refusal(calls[-1], FAILURE, words)
    assert {name.partition(".Get")[0] for name, _ in second.calls} == GETTERS
    assert part.member.identity == identity


def on_npu(scene: Scene) -> AllocatedMemory:
    """Memory for the input of the model, which npu owns."""
    memory = allocate([ModelRole(scene.load().original, False, 0)])
    assert memory.device == "npu"
    return memory


@pytest.mark.contract("RS-11")
def test_a_buffer_is_lost_with_its_device_and_one_that_is_allocated_again_holds_nothing(scene: Scene) -> None:
    lost = on_npu(scene)
    lost.copy_from(create_ashmem(32))
    lost.require_readable(())
    (role,) = lost.description.roles
    scene.die()
    second = scene.come_back()
    uses: list[Callable[[], object]] = [
        lambda: lost.copy_to(create_ashmem(32)),
        lambda: lost.copy_from(create_ashmem(32)),
        lambda: lost.pool,
        lost.require_alive,
    ]
    for use in uses:
        with pytest.raises(DeadObjectError, match="device npu's own, and is gone"):
            use()
    assert second.calls == []
    found = allocate([role])
    (request,) = second.requests("Device.Allocate")
    assert [(role.model_index, role.io_index) for role in request.input_roles] == [(0, 0)]
    assert (found.device, second.count(PREPARE)) == ("npu", 1)
    refusal(lambda: found.copy_to(create_ashmem(32)), INVALID, "the memory is uninitialised")
    refusal(lambda: found.require_readable(()), FAILURE, "the memory is uninitialised")
    assert second.count("Buffer.CopyTo") == 0


@pytest.mark.contract("RS-12")
@pytest.mark.parametrize("status", [ErrorStatus.DEVICE_UNAVAILABLE, INVALID, FAILURE], ids=lambda status: status.name)
def test_an_error_of_a_living_device_is_passed_on_and_nothing_is_made_again(
    short_path: Path, cpu_ref: Endpoint, status: ErrorStatus
) -> None:
    answer = burst_pb2.BurstAnswer(status=types_pb2.ErrorStatus.ValueType(status), message="not this one")
    with ExitStack() as stack:
        npu = stack.enter_context(ScriptedDevice(Endpoint(short_path / "npu"), on_burst=lambda _: answer))
        fleet = Fleet({"npu": npu.endpoint, "cpu_ref": cpu_ref})
        stack.callback(fleet.close)
        options = Options(Strategy.NNAPI, (Pin("name:*", "npu"),), fallback=Fallback.DENY)
        loaded = LoadedModel(prepare(import_model(model()), fleet, (), options))
        stack.callback(loaded.close)
        context = bound(loaded)
        refusal(context.run, status, "not this one")
        assert [npu.count(method) for method in ("Device.GetVersionString", PREPARE, CREATE)] == [1, 1, 1]
        assert (executed(npu), len(npu.sessions.all())) == (1, 1)
