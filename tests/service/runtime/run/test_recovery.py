"""A device process that is killed and comes back: what the framework makes again of what it had there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError, HalError, NnhalError
from nnhal.memory import create_ashmem
from nnhal.remote import DeviceIdentity
from nnhal.types import DataLocation, ErrorStatus, ExecutionPreference, Hints, Memory, Priority, TokenValuePair
from nnhal.v1 import burst_pb2, device_pb2, request_pb2, types_pb2
from nnhal_frontends import import_model
from nnhal_service.partition import Fallback, Options, Pin, Strategy
from nnhal_service.runtime import ExecutionContext, Fleet, LoadedModel, RunReport, TensorBinding, prepare
from nnhal_service.runtime.devices import fleet as fleet_module
from nnhal_service.runtime.devices import registration
from nnhal_service.runtime.memory.domains import AllocatedMemory, ModelRole, allocate
from tests.support.refusals import FAILURE, INVALID, refusal
from tests.support.repositories import onnx_file
from tests.support.scripted import (
    SUCCESS,
    OnBurst,
    Script,
    ScriptedDevice,
    kill,
    refuse,
    scripted_process,
)
from tests.support.waiting import wait_until

THREADS = 6
PREPARE = "Device.PrepareModelWithConfig"
CREATE = "PreparedModel.CreateReusableExecution"
GETTERS = {"Device"}


class Scene:
    """A framework with a device npu, which can be killed, and cpu_ref."""

    def __init__(self, directory: Path, cpu_ref: Endpoint, stack: ExitStack) -> None:
        self._directory = directory
        self._stack = stack
        self.process, endpoint = stack.enter_context(scripted_process(directory / "npu"))
        self.fleet = Fleet({"npu": endpoint, "cpu_ref": cpu_ref})
        stack.callback(self.fleet.close)

    def load(
        self, fallback: Fallback = Fallback.ALLOW, dimensions: tuple[int | str, ...] = (1, 8), **options: Any
    ) -> LoadedModel:
        options = {"pins": (Pin("name:*", "npu"),), "fallback": fallback, **options}
        prepared = prepare(
            import_model(onnx_file(shape=dimensions)), self.fleet, (), Options(Strategy.NNAPI, **options)
        )
        assert [step.device for step in prepared.plan.steps] == ["npu"]
        loaded = LoadedModel(prepared)
        self._stack.callback(loaded.close)
        return loaded

    def die(self) -> None:
        kill(self.process)

    def come_back(self, script: Script | None = None, on_burst: OnBurst | None = None) -> ScriptedDevice:
        """Serve npu again, from this process, which so sees what it is asked."""
        return self._stack.enter_context(ScriptedDevice(Endpoint(self._directory / "npu"), script, on_burst))


@pytest.fixture
def scene(short_path: Path, cpu_ref: Endpoint) -> Iterator[Scene]:
    with ExitStack() as stack:
        yield Scene(short_path, cpu_ref, stack)


def bound(loaded: LoadedModel) -> ExecutionContext:
    x, y = TensorBinding("x", DataLocation(0, 0, 32)), TensorBinding("y", DataLocation(0, 64, 32))
    return loaded.bind([x], [y], [create_ashmem(128)])


def executed(device: ScriptedDevice) -> int:
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


@pytest.mark.contract("RS-11")
def test_the_execution_is_created_again_without_dimensions_that_a_run_has_reported(scene: Scene) -> None:
    loaded = scene.load(dimensions=("n", 8))
    x, y = TensorBinding("x", DataLocation(0, 0, 64), (2, 8)), TensorBinding("y", DataLocation(0, 64, 64))
    context = loaded.bind([x], [y], [create_ashmem(128)])
    scene.die()
    result = request_pb2.ExecutionResult()
    result.CopyFrom(SUCCESS)
    result.output_shapes.add(dimensions=[2, 8], is_sufficient=True)
    second = scene.come_back(on_burst=lambda _: burst_pb2.BurstAnswer(result=result))
    wait_for_runs_on(second, context, 3)
    (request,) = second.requests(CREATE)
    assert [list(argument.dimensions) for argument in request.request.inputs] == [[2, 8]]
    assert [list(argument.dimensions) for argument in request.request.outputs] == [[]]


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
            prepare(import_model(onnx_file(shape=(1, 8))), fleet, (), Options(Strategy.NNAPI))
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


def on_npu(scene: Scene, loaded: LoadedModel | None = None, is_output: bool = False) -> AllocatedMemory:
    """Memory for the input of the model, or its output, which npu owns."""
    memory = allocate([ModelRole((loaded or scene.load()).original, is_output, 0)])
    assert memory.device == "npu"
    return memory


def values() -> Memory:
    return create_ashmem(32)


@pytest.mark.contract("RS-11")
@pytest.mark.parametrize("fallback", [Fallback.ALLOW, Fallback.DENY])
def test_a_buffer_of_a_dead_device_is_allocated_again_when_it_is_back_and_holds_nothing(
    scene: Scene, fallback: Fallback
) -> None:
    """While the device is away, every use fails; the first use after that allocates the buffer again."""
    memory = on_npu(scene, scene.load(fallback))
    memory.copy_from(values())
    uses: list[Callable[[], object]] = [
        lambda: memory.copy_to(values()),
        memory.to_host,
        lambda: memory.require_readable(()),
        lambda: memory.copy_from(values()),
        memory.require_alive,
        lambda: memory.pool,
    ]
    scene.die()
    for use in uses:
        with pytest.raises(DeadObjectError, match="device npu's own, and is gone"):
            use()
    second = scene.come_back({"Device.Allocate": device_pb2.AllocateResponse(buffer=70, token=71)})
    with pytest.raises(DeadObjectError):  # no token is given of a process that is gone
        uses[-1]()
    memory.require_alive()
    assert memory.pool == 71
    refusal(lambda: memory.copy_to(values()), INVALID, "the memory is uninitialised")
    refusal(lambda: memory.require_readable(()), FAILURE, "the memory is uninitialised")
    refusal(memory.to_host, FAILURE, "the memory is uninitialised")
    memory.copy_from(values())
    memory.copy_to(values())
    memory.require_readable((1, 8))
    (request,) = second.requests("Device.Allocate")
    assert [(role.model_index, role.io_index) for role in request.input_roles] == [(0, 0)]
    counts = [second.count(method) for method in (PREPARE, "Buffer.CopyFrom", "Buffer.CopyTo")]
    assert counts == [1, 1, 1]


@pytest.mark.contract("RS-11")
def test_values_that_were_lost_are_not_read_from_the_buffer_that_was_allocated_again(scene: Scene) -> None:
    memory = on_npu(scene)
    memory.copy_from(values())
    scene.die()
    second = scene.come_back()
    refusal(lambda: memory.copy_to(values()), INVALID, "the memory is uninitialised")
    assert (second.count("Device.Allocate"), second.count("Buffer.CopyTo")) == (1, 0)


@pytest.mark.contract("RS-08", "RS-11")
def test_of_several_threads_that_need_a_lost_buffer_the_first_has_it_allocated(scene: Scene) -> None:
    memory = on_npu(scene)
    scene.die()
    second = scene.come_back()
    together = threading.Barrier(THREADS)

    def copy() -> None:
        together.wait()
        memory.copy_from(values())

    with ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(copy) for _ in range(THREADS)]:
            done.result()
    counts = [second.count(method) for method in ("Device.Allocate", PREPARE, "Buffer.CopyFrom")]
    assert (counts, len(second.sessions.all())) == ([1, 1, THREADS], 1)


@pytest.mark.contract("RS-08", "RS-11")
@pytest.mark.parametrize("method", ["Device.Allocate", PREPARE])
def test_the_death_is_told_where_a_lost_buffer_cannot_be_allocated_again(scene: Scene, method: str) -> None:
    memory = on_npu(scene)
    memory.copy_from(values())
    scene.die()
    second = scene.come_back({method: refuse(HalError(FAILURE, "not again"))})
    with pytest.raises(DeadObjectError, match="device npu's own, and is gone") as caught:
        memory.copy_from(values())
    assert "not again" in str(caught.value.__cause__)
    assert second.count(method) == 1


@pytest.mark.contract("RS-11")
def test_a_lost_buffer_of_a_model_that_was_unloaded_stays_lost(scene: Scene) -> None:
    loaded = scene.load()
    memory = on_npu(scene, loaded)
    loaded.close()
    scene.die()
    second = scene.come_back()
    with pytest.raises(DeadObjectError, match="device npu's own, and is gone"):
        memory.copy_from(values())
    assert second.count("Device.Allocate") == 0


@pytest.mark.contract("RS-11")
def test_a_lost_buffer_that_is_freed_while_it_is_allocated_again_is_released(scene: Scene) -> None:
    memory = on_npu(scene)

    def allocates(request: object, call: object) -> device_pb2.AllocateResponse:
        memory.close()
        return device_pb2.AllocateResponse(buffer=70, token=71)

    scene.die()
    second = scene.come_back({"Device.Allocate": allocates})
    refusal(lambda: memory.copy_from(values()), INVALID, "the memory has been freed")
    wait_until(lambda: second.count("Buffer.Release") == 1, "the buffer is released")
    assert [request.buffer for request in second.requests("Buffer.Release")] == [70]


@pytest.mark.contract("RS-10", "RS-11")
@pytest.mark.parametrize("fallback", [Fallback.ALLOW, Fallback.DENY])
@pytest.mark.parametrize("is_launched", [False, True], ids=["run", "launch"])
def test_runs_bound_to_a_lost_buffer_work_again_with_the_token_of_the_new_one(
    scene: Scene, fallback: Fallback, is_launched: bool
) -> None:
    """Runs that read the buffer fail as for fresh memory, until it is written."""
    loaded = scene.load(fallback)
    x, y = on_npu(scene, loaded), on_npu(scene, loaded, is_output=True)
    contexts = [loaded.bind([TensorBinding("x", memory=x)], [TensorBinding("y", memory=y)], []) for _ in range(2)]

    def run(context: ExecutionContext) -> RunReport:
        if not is_launched:
            return context.run()
        launched = context.launch([])
        launched.fence.wait_for_end()
        if launched.ending.error is not None:
            raise launched.ending.error
        assert launched.ending.report is not None
        return launched.ending.report

    x.copy_from(values())
    for context in contexts:
        run(context)
    scene.die()
    for context in contexts:
        with pytest.raises(DeadObjectError, match="device npu's own, and is gone"):
            run(context)
    tokens = {70: 71, 80: 81}
    answers = iter([device_pb2.AllocateResponse(buffer=buffer, token=token) for buffer, token in tokens.items()])
    second = scene.come_back({"Device.Allocate": lambda *_: next(answers)})
    for context in contexts:
        refusal(partial(run, context), FAILURE, "the memory is uninitialised")
    assert executed(second) == 0
    x.copy_from(values())
    refusal(lambda: y.copy_to(values()), INVALID, "the memory is uninitialised")
    for context in contexts:
        assert not run(context).fell_back
    y.copy_to(values())
    assert (executed(second), second.count("Device.Allocate"), second.count(PREPARE)) == (2, 2, 1)
    for request in second.requests(CREATE):
        assert {pool.token for pool in request.request.pools} == {71, 81}


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
        loaded = LoadedModel(prepare(import_model(onnx_file(shape=(1, 8))), fleet, (), options))
        stack.callback(loaded.close)
        context = bound(loaded)
        refusal(context.run, status, "not this one")
        assert [npu.count(method) for method in ("Device.GetVersionString", PREPARE, CREATE)] == [1, 1, 1]
        assert (executed(npu), len(npu.sessions.all())) == (1, 1)
