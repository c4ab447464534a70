"""A call's objects are released at once if the session has no room for its handle or for a descriptor."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nnhal.descriptor import Descriptor
from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.shares import acting_for
from nnhal.types import NO_DEADLINE, ErrorStatus
from nnhal.v1 import framework_pb2 as wire
from nnhal.v1 import framework_pb2_grpc
from nnhal_client import Framework, connect
from nnhal_client.core.binding_memory import BindingMemory
from nnhal_client.memory import MemoryRole
from nnhal_hosting.calls import CallLimits
from nnhal_hosting.descriptors import MAX_OBJECTS, SessionLimits
from nnhal_hosting.server import ServerProcess
from nnhal_service.native.servicer import FrameworkServicer
from nnhal_service.native.session import NativeSession, NativeSessions, SessionBinding
from nnhal_service.runtime import Fleet
from nnhal_service.runtime.memory.domains import AllocatedMemory
from nnhal_service.runtime.run.launched_run import LaunchedRun
from tests.support.refusals import refusal
from tests.support.repositories import onnx_file
from tests.support.waiting import wait_until

LIMIT = 86
EXHAUSTED = ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT


class Rig:
    """A client, its session in the framework, and the fleet of two devices behind it; a model is on the first."""

    def __init__(self, client: Framework, session: NativeSession, fleet: Fleet, model: Path) -> None:
        self.client = client
        self.session = session
        self._fleet = fleet
        self._path = model
        self.model = client.load(model, devices=["cpu_acc"])
        # With the next descriptor that is put, the link drops that of the model's file.
        self._last = Descriptor(os.memfd_create("last"))
        client.calls.issue(self._last)

    def roles_on_both_devices(self) -> list[MemoryRole]:
        """The model's input, and that of the same model on the other device: memory for both is the host's."""
        other = self.client.load(self._path, devices=["cpu_ref"])
        self.client.calls.issue(self._last)
        return [self.model.input_role("x"), other.input_role("x")]

    def load_again(self) -> None:
        """Load the model under the name that it has already."""
        self.client.calls.call(self.client.stub.LoadModel, self._load_request())

    def _load_request(self) -> wire.LoadModelRequest:
        with self._path.open("rb") as file:
            number = self.client.calls.issue(Descriptor(os.dup(file.fileno())))
        return wire.LoadModelRequest(name=self.model.session_name, descriptor_id=number)

    def leave_descriptors(self, free: int) -> None:
        """Fill the session until ``free`` more descriptors have room in it."""
        shares, client = self.session.session.shares.descriptors, self.session.session.tenant
        with acting_for(client):
            count = shares.room(client) - free
            self.session.descriptors.put([Descriptor(os.memfd_create("filling")) for _ in range(count)])

    def leave_handles(self, free: int) -> None:
        """Fill the session until ``free`` more objects have room in it."""
        with acting_for(self.session.session.tenant):
            for _ in range(MAX_OBJECTS - len(self.session.all(object)) - free):
                self.session.add(object())

    def held(self) -> tuple[int, ...]:
        """Count what the device holds for the framework, and what the session owns in it."""
        usage = self._fleet.get("cpu_acc").remote.usage()
        bindings, runs = len(self.session.all(SessionBinding)), len(self.session.all(LaunchedRun))
        return usage.prepared_models, usage.executions, usage.bursts, usage.buffers, bindings, runs

    def comes_to_hold(self, held: tuple[int, ...]) -> None:
        """Require that so much is held; a device releases a burst only once it has seen the end of its channel."""
        wait_until(lambda: self.held() == held, f"{held} is held")


@pytest.fixture
def rig(cpu_acc: Endpoint, cpu_ref: Endpoint, short_path: Path) -> Iterator[Rig]:
    """A framework in this process whose sessions hold few descriptors, and a model that is loaded."""
    endpoint, path = Endpoint(short_path / "framework", "framework"), short_path / "model.onnx"
    path.write_bytes(onnx_file(shape=(1, 8)))
    fleet, sessions = Fleet({"cpu_acc": cpu_acc, "cpu_ref": cpu_ref}), NativeSessions(NativeSession)
    limits = SessionLimits(descriptors=LIMIT)
    server = ServerProcess(endpoint, sessions.opened, limits, CallLimits(threads=4))
    framework_pb2_grpc.add_FrameworkServiceServicer_to_server(FrameworkServicer(fleet, sessions), server.rpc)
    with server, connect(endpoint.directory) as client:
        yield Rig(client, sessions.all()[0], fleet, path)
    fleet.close()


def no_descriptor(rig: Rig) -> None:
    """Leave room for the pool of a binding alone."""
    rig.leave_descriptors(1)


def no_handle(rig: Rig) -> None:
    rig.leave_handles(0)


@pytest.mark.parametrize("fill", [no_descriptor, no_handle])
def test_a_binding_that_the_session_cannot_own_leaves_nothing_behind(rig: Rig, fill: Callable[[Rig], None]) -> None:
    before = rig.held()
    fill(rig)
    with pytest.raises(HalError) as caught:
        rig.model.bind()
    assert caught.value.status == EXHAUSTED
    rig.comes_to_hold(before)


def test_a_binding_whose_memory_was_freed_leaves_nothing_behind(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = rig.client.allocate([rig.model.input_role("x")])
    before = rig.held()
    keep = rig.session.memories.keep

    def free_first(kept: AllocatedMemory, user: object) -> None:
        memory.close()
        keep(kept, user)

    monkeypatch.setattr(rig.session.memories, "keep", free_first)
    refusal(lambda: rig.model.bind(memories={"x": memory}), ErrorStatus.INVALID_ARGUMENT, "the memory has been freed")
    prepared, executions, bursts, buffers, *owned = before
    rig.comes_to_hold((prepared, executions, bursts, buffers - 1, *owned))


def test_a_binding_without_room_for_a_run_channel_runs_through_the_framework(rig: Rig) -> None:
    rig.leave_descriptors(4)
    binding = rig.model.bind()
    (bound,) = rig.session.all(SessionBinding)
    assert not bound.context.has_run_channel
    assert not binding.run().direct
    shares = rig.session.session.shares.descriptors
    assert shares.room(rig.session.session.tenant) == 1  # of the channel, the client has its end


def test_descriptors_that_were_offered_are_withdrawn(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    before = rig.held()

    def fail(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr("nnhal_service.native.bindings._open_run_channels", fail)
    rig.leave_descriptors(5)
    filled = len(rig.session.descriptors)
    with pytest.raises(HalError, match="the log of the process has the reason"):
        rig.model.bind()
    rig.comes_to_hold(before)
    assert len(rig.session.descriptors) == filled + 2  # those of the pools


@pytest.mark.parametrize("fill", [lambda rig: rig.leave_descriptors(0), no_handle], ids=["no descriptor", "no handle"])
def test_a_launched_run_that_the_session_cannot_own_leaves_nothing_behind(
    rig: Rig, fill: Callable[[Rig], None]
) -> None:
    binding = rig.model.bind()
    (bound,) = rig.session.all(SessionBinding)
    launch = wire.LaunchRunRequest(binding=binding._handle, deadline_ns=NO_DEADLINE, duration_ns=NO_DEADLINE)
    rig.client.calls.call(rig.client.stub.LaunchRun, launch)
    wait_until(lambda: can_run(bound), "the first launched run has ended")
    before = rig.held()
    fill(rig)
    with pytest.raises(HalError) as caught:
        rig.client.calls.call(rig.client.stub.LaunchRun, launch)
    assert caught.value.status == EXHAUSTED
    rig.comes_to_hold(before)
    wait_until(lambda: can_run(bound), "the run that was launched has ended")


def can_run(binding: SessionBinding) -> bool:
    """Run a binding; False if a launched run has not ended yet."""
    try:
        binding.context.run()
    except HalError:
        return False
    return True


def test_memory_that_the_session_cannot_own_leaves_nothing_behind(rig: Rig) -> None:
    before = rig.held()
    rig.leave_handles(0)
    refusal(
        lambda: rig.client.allocate([rig.model.input_role("x")]),
        EXHAUSTED,
        f"holds {MAX_OBJECTS} of the {MAX_OBJECTS} that",
    )
    rig.comes_to_hold(before)


def test_memory_of_the_host_without_room_for_its_descriptor_leaves_nothing_behind(rig: Rig) -> None:
    roles = rig.roles_on_both_devices()
    before = rig.session.all(object)
    rig.leave_descriptors(0)
    refusal(lambda: rig.client.allocate(roles), EXHAUSTED, "holds 48 of the 48 that")
    assert rig.session.all(object) == before


def test_a_model_that_the_session_cannot_own_leaves_nothing_behind(rig: Rig) -> None:
    before = rig.held()
    refusal(rig.load_again, ErrorStatus.INVALID_ARGUMENT, "is loaded already in this session")
    rig.comes_to_hold(before)


def bind(rig: Rig) -> Callable[[], object]:
    """Bind the model, with a run channel; return what unbinds it."""
    memory = BindingMemory(rig.model.inputs, rig.model.outputs, {}, {})
    request = memory.bind_request(rig.model.session_name, False, True, True, rig.client.calls.issue)
    made = rig.client.calls.call(rig.client.stub.Bind, request)
    assert made.HasField("run_channel")
    unbind = wire.UnbindRequest(binding=made.binding)
    return lambda: (memory, rig.client.calls.call(rig.client.stub.Unbind, unbind))


def launch(rig: Rig) -> Callable[[], object]:
    binding = rig.model.bind(direct=False)
    request = wire.LaunchRunRequest(binding=binding._handle, deadline_ns=NO_DEADLINE, duration_ns=NO_DEADLINE)
    made = rig.client.calls.call(rig.client.stub.LaunchRun, request)
    release = wire.ReleaseLaunchedRunRequest(launched=made.launched)
    return lambda: (binding, rig.client.calls.call(rig.client.stub.ReleaseLaunchedRun, release))


def allocate(rig: Rig) -> Callable[[], object]:
    roles = [wire.MemoryRole(model=role.model, index=role.index, probability=1) for role in rig.roles_on_both_devices()]
    made = rig.client.calls.call(rig.client.stub.AllocateMemory, wire.AllocateMemoryRequest(roles=roles))
    return lambda: rig.client.calls.call(rig.client.stub.FreeMemory, wire.FreeMemoryRequest(memory=made.memory))


@pytest.mark.parametrize(("make", "offered"), [(bind, 2), (launch, 1), (allocate, 1)])
def test_what_is_released_takes_its_untaken_descriptors_along(
    rig: Rig, make: Callable[[Rig], Callable[[], object]], offered: int
) -> None:
    release = make(rig)
    before = len(rig.session.descriptors)
    release()
    assert len(rig.session.descriptors) == before - offered


def test_closing_the_channel_of_a_binding_releases_it_and_what_was_offered_with_it(rig: Rig) -> None:
    before = rig.held()
    binding = rig.model.bind()
    binding.run()
    for channel in binding._runs.channels[:1]:
        channel.close()
    rig.comes_to_hold(before)
    binding.close()
    again = rig.model.bind()
    assert again.run().direct
