from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from nnhal.descriptor import Descriptor
from nnhal.errors import HalError, invalid_argument
from nnhal.fence import Fence, FenceState, create_fence
from nnhal.types import NO_DEADLINE, ErrorStatus, ExecutionConfig, ExecutionResult
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.driver import DriverOptions
from nnhal_devices.host import fenced
from nnhal_devices.host.bound_request import BoundRequest
from nnhal_devices.host.callback import FencedExecution
from nnhal_devices.host.device import Device, Preparation
from nnhal_devices.host.device_memory import DeviceBuffer
from nnhal_devices.host.fenced import LaunchCount, Launcher
from nnhal_devices.host.models import ValidModel
from nnhal_devices.host.prepared_model import PreparedModel
from nnhal_devices.host.settings import DeviceSettings
from nnhal_devices.host.staging import NO_STAGING, Staging
from tests.support.additions import Addition, addition_in_ashmem, addition_model
from tests.support.refusals import FAILURE, refusal

EXHAUSTED = ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT
FAR = 2**63 - 1


class Nobody:
    """An owner without buffers, and a client."""

    def __init__(self) -> None:
        self.launched = LaunchCount()
        self.ended = Descriptor(os.eventfd(0))

    def buffer(self, token: int) -> DeviceBuffer:
        """See Owner."""
        invalid_argument(f"device buffer {token} does not exist")


class Answered:
    """What a launch answered."""

    def __init__(self, execution: FencedExecution, fence: Fence | None) -> None:
        self.execution = execution
        assert fence is not None
        self.fence = fence


@pytest.fixture
def addition() -> Addition:
    """Terms and room for their sum."""
    return addition_in_ashmem()


@pytest.fixture
def bound(addition: Addition) -> BoundRequest:
    """The addition, tied to its memory."""
    prepared: PreparedModel = Device(CpuRef(DriverOptions()), DeviceSettings()).launch(
        ValidModel.of(addition_model()), Preparation(), Nobody()
    )()
    return prepared.bind(addition.request, ExecutionConfig())


@pytest.fixture
def client() -> Nobody:
    """Who launches."""
    return Nobody()


@pytest.fixture
def launch(bound: BoundRequest, client: Nobody) -> Iterator[Callable[..., Answered]]:
    """Launches the addition."""
    launcher = Launcher()

    def start(*fences: Fence, deadline_ns: int = NO_DEADLINE, duration_ns: int = NO_DEADLINE) -> Answered:
        answered, launched = launcher.launch(bound, fences, deadline_ns, duration_ns, client, Answered)
        assert launched is not None
        fenced.start(launched)
        return answered

    yield start
    os.eventfd_write(client.ended.fileno(), 1)


@pytest.mark.parametrize(
    ("deadline_ns", "duration_ns", "expected_ns"),
    [
        (NO_DEADLINE, NO_DEADLINE, NO_DEADLINE),
        (FAR, NO_DEADLINE, FAR),
        (NO_DEADLINE, 30, 1030),
        (FAR, 30, 1030),
        (1020, 30, 1020),
        (1020, FAR, 1020),
    ],
)
def test_a_duration_begins_when_the_fences_have_signalled(
    launch: Callable[..., Answered],
    monkeypatch: pytest.MonkeyPatch,
    deadline_ns: int,
    duration_ns: int,
    expected_ns: int,
) -> None:
    clock, seen = [100], list[int]()

    def run(bound: BoundRequest, deadline_ns: int) -> tuple[ExecutionResult, Staging]:
        del bound
        seen.append(deadline_ns)
        return ExecutionResult(), NO_STAGING

    monkeypatch.setattr(BoundRequest, "run_held", run)
    monkeypatch.setattr(fenced, "now_ns", lambda: clock[0])
    monkeypatch.setattr(fenced, "require_ahead", lambda _: None)
    monkeypatch.setattr(fenced, "wait_for_all", lambda fences, *_: [fence.wait() for fence in fences])
    starter, held = create_fence()
    launched = launch(held, deadline_ns=deadline_ns, duration_ns=duration_ns)
    clock[0] = 1000
    starter.send()
    launched.fence.wait()
    assert seen == [expected_ns]


def test_without_a_thread_to_be_had_the_execution_has_failed(
    launch: Callable[..., Answered],
    bound: BoundRequest,
    client: Nobody,
    addition: Addition,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    addition.fill(1, 2)
    with monkeypatch.context() as without_threads:
        without_threads.setattr(threading.Thread, "start", start)
        launched = launch()
    assert launched.fence.state is FenceState.ERROR
    assert launched.execution.info().status == EXHAUSTED
    assert "can't start new thread" in launched.execution.info().message
    assert client.launched.value == 0
    addition.fill(1, 2)
    launch().fence.wait()
    assert launched.execution.info().status == EXHAUSTED
    np.testing.assert_array_equal(addition.total(), np.float32(3))
    assert client.launched.value == 0


def test_without_a_fence_to_be_had_nothing_is_launched(
    launch: Callable[..., Answered], client: Nobody, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as without_descriptors:
        without_descriptors.setattr(fenced, "create_fence", none)
        refusal(launch, EXHAUSTED, "Too many open files")
    assert client.launched.value == 0
    launch().fence.wait()


def test_what_cannot_be_answered_is_not_launched(bound: BoundRequest, client: Nobody, addition: Addition) -> None:
    def refuse(execution: FencedExecution, fence: Fence | None) -> None:
        raise HalError(EXHAUSTED, "full")

    addition.fill(1, 2)
    launcher = Launcher()
    refusal(lambda: launcher.launch(bound, (), NO_DEADLINE, NO_DEADLINE, client, refuse), EXHAUSTED, "full")
    assert client.launched.value == 0
    answered, launched = launcher.launch(bound, (), NO_DEADLINE, NO_DEADLINE, client, Answered)
    assert launched is not None
    launched.run()
    answered.fence.wait()
    np.testing.assert_array_equal(addition.total(), np.float32(3))


def test_a_driver_that_breaks_is_a_general_failure(
    launch: Callable[..., Answered], client: Nobody, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(bound: BoundRequest, deadline_ns: int) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(BoundRequest, "run_held", broken)
    launched = launch()
    with pytest.raises(Exception, match="in error"):
        launched.fence.wait()
    assert launched.execution.info().status == FAILURE
    assert client.launched.value == 0


def test_whoever_is_told_of_the_end_can_launch_again(launch: Callable[..., Answered]) -> None:
    for _ in range(100):
        launched = launch()
        while True:
            try:
                launched.execution.info()
                break
            except HalError:
                continue
    launched.fence.wait()
