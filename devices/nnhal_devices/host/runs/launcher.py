"""Launching fenced executions: checked in full now, begun when their fences have signalled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import partial
from typing import TypeVar

from nnhal.clock import now_ns
from nnhal.descriptor import Descriptor
from nnhal.errors import HalError, invalid_argument
from nnhal.exhaustion import host_failure
from nnhal.fence import Fence, FenceState, Signal, create_fence
from nnhal.threads import BriefThread
from nnhal.types import NO_DEADLINE, ErrorStatus
from nnhal_devices.backend import CommandQueue
from nnhal_devices.host.runs.execution import Execution
from nnhal_devices.host.runs.hooks import NO_HOOKS, Hooks
from nnhal_devices.host.runs.launch import EnqueuedLaunches, Launch, Sync
from nnhal_devices.host.runs.launches import FencedExecutionCallback, LaunchingClient
from nnhal_devices.host.runs.scheduler import require_ahead

T = TypeVar("T")


class Launcher:
    """Launches executions. Safe to use from several threads."""

    def __init__(self, queue: CommandQueue | None = None, synchronous: bool = False, hooks: Hooks = NO_HOOKS) -> None:
        """``queue`` is that of an asynchronous device.

        A ``synchronous`` device computes in the call: it returns no fence, and raises what goes wrong.
        """
        self._queue = queue
        self._synchronous = synchronous
        self._hooks = hooks

    def launch(
        self,
        execution: Execution,
        fences: Sequence[Fence],
        deadline_ns: int,
        duration_ns: int,
        client: LaunchingClient,
        answer: Callable[[FencedExecutionCallback, Fence | None], T],
        enqueued: EnqueuedLaunches | None = None,
    ) -> tuple[T, Launch | None]:
        """Check all that can be checked now. Return what ``answer`` returns, and the launch that is left to run.

        The caller runs the launch, or leaves that to ``start``. ``answer`` is called with the callback and the fence,
        which is None if the execution has ended; if it raises, nothing is launched. With ``enqueued`` the fence of an
        asynchronous device signals when the execution is in its queue.

        Raises INVALID_ARGUMENT for bad numbers, outputs of unknown size, and fences that are in error already;
        GENERAL_FAILURE if the execution is in flight already or a device buffer has nothing to read;
        RESOURCE_EXHAUSTED_TRANSIENT if the client has launched too many; DEVICE_UNAVAILABLE if the device drains.
        """
        launched_ns = now_ns()
        if min(deadline_ns, duration_ns) < NO_DEADLINE:
            invalid_argument(f"deadline {deadline_ns} ns and duration {duration_ns} ns, expected -1 or more each")
        _require_no_error(fences)
        execution.require_known_outputs()
        require_ahead(deadline_ns)
        self._hooks.launching(execution)
        execution.hold()
        launch = Launch(execution, fences, deadline_ns, duration_ns, client, launched_ns, enqueued)
        try:
            if execution.uses:
                execution.uses.require_launchable()
            client.interrupt.descriptor.fileno()  # the run will wait on it
            self._enter(launch, client)
        except BaseException:
            execution.let_go()
            raise
        if execution.uses:
            execution.uses.begin()
        if self._synchronous:
            info = launch.execute()
            if info.status != ErrorStatus.NONE:
                raise HalError(info.status, info.message)
            return answer(launch.callback, None), None
        try:
            signal, fence = _new_fence()
            launch.signal = self._hooks.signal(execution, signal)
            answered = answer(launch.callback, fence)
        except BaseException:
            launch.let_go()
            raise
        return answered, launch

    def enqueued(self) -> EnqueuedLaunches | None:
        """Return what will hold the launches that one channel enqueues; None if the device is not asynchronous."""
        return EnqueuedLaunches(self._queue) if self._queue is not None else None

    def sync(
        self, fences: Sequence[Fence], client: LaunchingClient, enqueued: EnqueuedLaunches | None
    ) -> tuple[Fence, Sync]:
        """Return a fence that signals when all that was enqueued is visible, and the sync that is left to run.

        Raises INVALID_ARGUMENT for fences that are in error, RESOURCE_EXHAUSTED_TRANSIENT.
        """
        _require_no_error(fences)
        sync = Sync(fences, client, enqueued, now_ns())
        client.launched.enter(sync, len(fences))
        try:
            sync.signal, fence = _new_fence()
        except BaseException:
            client.launched.leave(sync)
            raise
        return fence, sync

    def _enter(self, launch: Launch, client: LaunchingClient) -> None:
        client.launched.enter(
            launch, len(launch.fences)
        )  # before it is asked whether the device drains: then no launch is overlooked
        try:
            launch.execution.prepared.scheduler.require_open()
        except BaseException:
            client.launched.leave(launch)
            raise


def start(launch: Launch) -> None:
    """Run a launch in a thread of its own."""
    try:
        BriefThread(partial(copy_context().run, launch.run), "fenced").start()
    except RuntimeError as error:
        launch.fail(str(error))


def fences_from(descriptors: list[Descriptor]) -> list[Fence]:
    """The fences to wait for. Raises INVALID_ARGUMENT if a descriptor is no fence."""
    try:
        return [Fence.received(descriptor) for descriptor in descriptors]
    except ValueError as error:
        raise HalError(ErrorStatus.INVALID_ARGUMENT, f"waiting for {error}") from error


def _require_no_error(fences: Sequence[Fence]) -> None:
    for fence in fences:
        if fence.state is FenceState.ERROR:
            invalid_argument(f"{fence.name} to wait for is in error")


def _new_fence() -> tuple[Signal, Fence]:
    try:
        return create_fence()
    except OSError as error:
        raise host_failure("no fence could be created", error) from error
