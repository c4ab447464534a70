from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from nnhal.errors import HalError, invalid_argument
from nnhal.fence import Fence, FenceState, create_fence
from nnhal.types import NO_DEADLINE, ErrorStatus, ExecutionConfig, ExecutionResult
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.driver import DriverOptions
from nnhal_devices.host.memory.device_memory import DeviceBuffer
from nnhal_devices.host.memory.staging import NO_STAGING, Staging
from nnhal_devices.host.runs import launch as launches
from nnhal_devices.host.runs import launcher as launching
from nnhal_devices.host.runs.execution import Execution
from nnhal_devices.host.runs.launcher import Launcher
from nnhal_devices.host.runs.launches import FencedExecutionCallback, Interrupt, Launches
from nnhal_devices.host.runs.prepared_model import PreparedModel
from nnhal_devices.host.sessions.hosted_device import HostedDevice, Preparation
from nnhal_devices.host.sessions.models import ValidModel
from nnhal_devices.host.settings import DeviceSettings
from nnhal_hosting.descriptors import SessionLimits, SessionShares
from tests.support.additions import Addition, addition_in_ashmem, addition_model
from tests.support.refusals import FAILURE, refusal

EXHAUSTED = ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT
FAR = 2**63 - 1


class Nobody:
    """A session without buffers, which launches."""

    is_over = False

    def __init__(self) -> None:
        self.launched = Launches(SessionShares(SessionLimits()))
        self.interrupt = Interrupt()

    def buffer(self, token: int) -> DeviceBuffer:
        invalid_argument(f"device buffer {token} does not exist")


class Answered:
    """Answer to a launch."""

    def __init__(self, callback: FencedExecutionCallback, fence: Fence | None) -> None:
        self.callback = callback
        assert fence is not None
        self.fence = fence


@pytest.fixture
def addition() -> Addition:
    return addition_in_ashmem()


@pytest.fixture
def execution(addition: Addition) -> Execution:
    prepared: PreparedModel = HostedDevice(CpuRef(DriverOptions()), DeviceSettings()).launch(
        ValidModel.of(addition_model()), Preparation(), Nobody()
    )()
    return prepared.bind(addition.request, ExecutionConfig())


@pytest.fixture
def client() -> Nobody:
    return Nobody()


@pytest.fixture
def launch(execution: Execution, client: Nobody) -> Iterator[Callable[..., Answered]]:
    launcher = Launcher()

    def start(*fences: Fence, deadline_ns: int = NO_DEADLINE, duration_ns: int = NO_DEADLINE) -> Answered:
        answered, launched = launcher.launch(execution, fences, deadline_ns, duration_ns, client, Answered)
        assert launched is not None
        launching.start(launched)
        return answered

    yield start
    client.interrupt.end()


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

    def run(execution: Execution, deadline_ns: int) -> tuple[ExecutionResult, Staging]:
        del execution
        seen.append(deadline_ns)
        return ExecutionResult(), NO_STAGING

    monkeypatch.setattr(Execution, "run_held", run)
    monkeypatch.setattr(launches, "now_ns", lambda: clock[0])
    monkeypatch.setattr(launching, "require_ahead", lambda _: None)
    monkeypatch.setattr(launches, "wait_for_all", lambda fences, *_: [fence.wait() for fence in fences])
    starter, held = create_fence()
    launched = launch(held, deadline_ns=deadline_ns, duration_ns=duration_ns)
    clock[0] = 1000
    starter.send()
    launched.fence.wait()
    assert seen == [expected_ns]


def test_without_a_thread_to_be_had_the_execution_has_failed(
    launch: Callable[..., Answered],
    execution: Execution,
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
    assert launched.callback.info().status == EXHAUSTED
    assert "can't start new thread" in launched.callback.info().message
    assert len(client.launched) == 0
    addition.fill(1, 2)
    launch().fence.wait()
    assert launched.callback.info().status == EXHAUSTED
    np.testing.assert_array_equal(addition.total(), np.float32(3))
    assert len(client.launched) == 0


def test_without_a_fence_to_be_had_nothing_is_launched(
    launch: Callable[..., Answered], client: Nobody, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as without_descriptors:
        without_descriptors.setattr(launching, "create_fence", none)
        refusal(launch, EXHAUSTED, "the process has no descriptor left")
    assert len(client.launched) == 0
    launch().fence.wait()


def test_what_cannot_be_answered_is_not_launched(execution: Execution, client: Nobody, addition: Addition) -> None:
    def refuse(callback: FencedExecutionCallback, fence: Fence | None) -> None:
        raise HalError(EXHAUSTED, "full")

    addition.fill(1, 2)
    launcher = Launcher()
    refusal(lambda: launcher.launch(execution, (), NO_DEADLINE, NO_DEADLINE, client, refuse), EXHAUSTED, "full")
    assert len(client.launched) == 0
    answered, launched = launcher.launch(execution, (), NO_DEADLINE, NO_DEADLINE, client, Answered)
    assert launched is not None
    launched.run()
    answered.fence.wait()
    np.testing.assert_array_equal(addition.total(), np.float32(3))


def test_a_driver_that_breaks_is_a_general_failure(
    launch: Callable[..., Answered], client: Nobody, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(execution: Execution, deadline_ns: int) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Execution, "run_held", broken)
    launched = launch()
    with pytest.raises(Exception, match="in error"):
        launched.fence.wait()
    assert launched.callback.info().status == FAILURE
    assert len(client.launched) == 0


def test_whoever_is_told_of_the_end_can_launch_again(launch: Callable[..., Answered]) -> None:
    for _ in range(100):
        launched = launch()
        while True:
            try:
                launched.callback.info()
                break
            except HalError:
                continue
    launched.fence.wait()
