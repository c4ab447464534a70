"""Launched executions: they begin when their fences have signalled, and signal a fence when they have ended."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from nnhal.clock import now_ns
from nnhal.errors import HalError, general_failure
from nnhal.fence import Fence, FenceError, Signal, WaitInterruptedError, wait_for_all
from nnhal.types import NO_DEADLINE, ErrorStatus, FencedExecutionInfo, Timing
from nnhal_devices.backend import CommandQueue
from nnhal_devices.driver import CANCELLED
from nnhal_devices.host.runs.bound_run import Conclude
from nnhal_devices.host.runs.execution import Execution
from nnhal_devices.host.runs.launches import FencedExecutionCallback, LaunchingClient
from nnhal_hosting.logs import get_logger
from nnhal_hosting.rpc import defect

_log = get_logger(__name__)
_ENQUEUED = FencedExecutionInfo(ErrorStatus.NONE)
_LOOK_NS = 250_000_000
"""Time between two looks of a waiting launch at whether it was cancelled."""


class EnqueuedLaunches:
    """The launches that one channel has enqueued on an asynchronous device since its last sync, in order."""

    def __init__(self, queue: CommandQueue) -> None:
        self._queue = queue
        self._lock = threading.Lock()
        self._syncing = threading.Lock()
        self._conclusions: list[Callable[[], FencedExecutionInfo]] = []
        self._failed: list[FencedExecutionInfo] = []
        self._closed = False

    def add(self, conclude: Callable[[], FencedExecutionInfo]) -> None:
        """Add a launch; ``conclude`` says how it ended once the queue has been synced."""
        with self._lock:
            self._conclusions.append(conclude)
            closed = self._closed
        if closed:
            self.sync()

    def sync(self) -> list[FencedExecutionInfo]:
        """Finish every launch, make the results visible, and return how each ended."""
        with self._syncing:
            failed, self._failed = self._failed, []
            return [*failed, *self._sync()]

    def flush(self) -> None:
        """Finish every launch, and leave a failure for the next ``sync`` to return."""
        with self._syncing:
            found = [*self._failed, *self._sync()]
            self._failed = [info for info in found if info.status != ErrorStatus.NONE][:1]

    def close(self) -> None:
        """Sync now, and after each later ``add``: without a channel no sync is asked for, and the queue keeps all."""
        with self._lock:
            self._closed = True
        self.sync()

    def _sync(self) -> list[FencedExecutionInfo]:
        with self._lock:
            conclusions, self._conclusions = self._conclusions, []
        self._queue.sync()
        return [conclude() for conclude in conclusions]


class Launch:
    """One launched execution. Exactly one of ``run``, ``execute`` and ``fail`` is called."""

    def __init__(
        self,
        execution: Execution,
        fences: Sequence[Fence],
        deadline_ns: int,
        duration_ns: int,
        client: LaunchingClient,
        launched_ns: int,
        enqueued: EnqueuedLaunches | None,
    ) -> None:
        self.callback = FencedExecutionCallback()
        self.signal: Signal | None = None
        self.execution = execution
        self.fences = fences
        """Those that it waits for."""
        self.deadline_ns = deadline_ns
        self.launched_ns = launched_ns
        self.has_begun = False
        """True if it waits for no fence any more."""
        self._duration_ns = duration_ns
        self._client = client
        self._enqueued = enqueued
        self._cancelled = False

    @property
    def is_brief(self) -> bool:
        """Return whether it can begin at once, and its last run took less than it takes to wake another thread."""
        execution = self.execution
        at_once = self._enqueued is not None or execution.prepared.begins_at_once
        return at_once and not self.fences and execution.is_brief

    @property
    def is_enqueued(self) -> bool:
        """Return whether it is in the command queue, or about to be: it is done in order, with all that is in it."""
        return self._enqueued is not None and self.has_begun

    def run(self) -> None:
        """Execute it, or enqueue it, and signal its fence or put it into error."""
        enqueued = self._enqueued
        if enqueued is None:
            self._signal(self.execute())
            return
        info = self._guarded(lambda: self._enqueue(enqueued))
        if info.status != ErrorStatus.NONE:
            self._end(info)
        self._signal(info)

    def fail(self, reason: str) -> None:
        """End it without a run, since none is possible."""
        info = _info_of(HalError(ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT, f"cannot be run: {reason}"))
        self._end(info)
        self._signal(info)

    def cancel(self) -> bool:
        """End it if it has not begun; return whether it had not."""
        self._cancelled = True
        self._client.interrupt.wake()
        return not self.has_begun

    def execute(self) -> FencedExecutionInfo:
        """Wait for the fences, run, and return how it ended."""
        return self._end(self._guarded(self._execute))

    def let_go(self) -> None:
        """Release the execution, its device buffers and its place in the client's count."""
        if self.execution.uses:
            self.execution.uses.end()
        self.execution.let_go()
        self._client.launched.leave(self)

    def _end(self, info: FencedExecutionInfo) -> FencedExecutionInfo:
        # In this order: a client that learns of the end can launch the execution again.
        self.let_go()
        self.callback.end(info)
        return info

    def _signal(self, info: FencedExecutionInfo) -> None:
        if self.signal is not None:
            if info.status == ErrorStatus.NONE:
                self.signal.send()
            else:
                self.signal.fail()

    def _guarded(self, work: Callable[[], FencedExecutionInfo]) -> FencedExecutionInfo:
        """Return what some work returns, or how it failed: its outputs are undefined then."""
        try:
            return work()
        except HalError as error:
            info = _info_of(error)
        except Exception as error:
            _log.exception("a fenced execution failed")
            info = _info_of(defect(error))
        if self.execution.uses:
            self.execution.uses.spoil()
        return info

    def _execute(self) -> FencedExecutionInfo:
        begun_ns = self._wait()
        self.execution.is_wanted = self._is_wanted
        return self._info(lambda: self.execution.run_held(self._effective_deadline(begun_ns)), begun_ns)

    def _enqueue(self, enqueued: EnqueuedLaunches) -> FencedExecutionInfo:
        begun_ns = self._wait()
        if self.execution.copies_inputs:
            enqueued.flush()  # an input that is copied now may be a result of a launch that is in the queue
        conclude = self.execution.enqueue_held(self._effective_deadline(begun_ns))
        enqueued.add(lambda: self._conclude(conclude, begun_ns))
        return _ENQUEUED

    def _conclude(self, conclude: Conclude, begun_ns: int) -> FencedExecutionInfo:
        """End a launch that was enqueued and has run."""
        return self._end(self._guarded(lambda: self._info(conclude, begun_ns)))

    def _info(self, run: Conclude, begun_ns: int) -> FencedExecutionInfo:
        execution = self.execution
        result, staging = run()
        if not result.output_sufficient_size:
            general_failure("an output did not fit its memory")
        execution.last_run_ns = now_ns() - begun_ns
        if not execution.measures:
            return FencedExecutionInfo(ErrorStatus.NONE, staged_bytes=staging.bytes, staging_ns=staging.duration_ns)
        fenced = result.timing
        waited_ns = begun_ns - self.launched_ns
        return FencedExecutionInfo(
            ErrorStatus.NONE,
            Timing(fenced.time_on_device_ns, fenced.time_in_driver_ns + waited_ns),
            fenced,
            staged_bytes=staging.bytes,
            staging_ns=staging.duration_ns,
            span=staging.span,
            copies=tuple(staging.copies),
        )

    def _wait(self) -> int:
        """Wait for the fences, and return the instant at which all had signalled. Raises HalError."""
        _wait(self.fences, self.deadline_ns, self._client, self._require_wanted, self._is_wanted)
        self.has_begun = True
        self._require_wanted()
        return now_ns()

    def _is_wanted(self) -> bool:
        return self.signal is None or not self.signal.is_cancelled

    def _require_wanted(self) -> None:
        if self._cancelled:
            general_failure(CANCELLED)

    def _effective_deadline(self, begun_ns: int) -> int:
        if self._duration_ns == NO_DEADLINE:
            return self.deadline_ns
        end = begun_ns + self._duration_ns
        return end if self.deadline_ns == NO_DEADLINE else min(end, self.deadline_ns)


class Sync:
    """Makes what was enqueued visible, then signals."""

    is_brief = False

    def __init__(
        self, fences: Sequence[Fence], client: LaunchingClient, enqueued: EnqueuedLaunches | None, launched_ns: int
    ) -> None:
        self.signal: Signal | None = None
        self.fences = fences
        """Those that it waits for."""
        self.launched_ns = launched_ns
        self._client = client
        self._enqueued = enqueued

    def run(self) -> None:
        """Wait for the fences, sync, and signal; the fence is in error if an enqueued launch has failed."""
        try:
            _wait(self.fences, NO_DEADLINE, self._client)
            ended = self._enqueued.sync() if self._enqueued is not None else []
            failed = any(info.status != ErrorStatus.NONE for info in ended)
        except HalError:
            failed = True
        except Exception:
            _log.exception("a sync failed")
            failed = True
        self._client.launched.leave(self)
        if self.signal is None:
            return
        if failed:
            self.signal.fail()
        else:
            self.signal.send()


def _info_of(error: HalError) -> FencedExecutionInfo:
    return FencedExecutionInfo(error.status, message=error.message)


def _wait(
    fences: Sequence[Fence],
    deadline_ns: int,
    client: LaunchingClient,
    require_wanted: Callable[[], object] = lambda: None,
    is_wanted: Callable[[], bool] = lambda: True,
) -> None:
    """Wait for fences. Raises HalError.

    ``require_wanted`` is called before that, and after each interruption; ``is_wanted`` meanwhile, since no poll shows
    that a client has cancelled the launch's own fence.
    """
    while True:
        interrupt = client.interrupt.descriptor
        require_wanted()
        look_ns = now_ns() + _LOOK_NS
        is_last = deadline_ns != NO_DEADLINE and deadline_ns <= look_ns
        try:
            wait_for_all(fences, deadline_ns if is_last else look_ns, interrupt.fileno())
            return
        except WaitInterruptedError as error:
            if client.interrupt.descriptor is interrupt:
                general_failure(f"{error}: the session is over")
        except FenceError as error:
            general_failure(str(error))
        except TimeoutError as error:
            if is_last:
                raise HalError(ErrorStatus.MISSED_DEADLINE_TRANSIENT, str(error)) from error
            if not is_wanted():
                general_failure(CANCELLED)
