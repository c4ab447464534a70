"""Fenced executions: launched now, begun when their fences have signalled, and waited for by a fence."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from nnhal.descriptor import Descriptor
from nnhal.errors import HalError, general_failure, invalid_argument
from nnhal.fence import Fence, FenceError, FenceState, Signal, create_fence, wait_for_all
from nnhal.types import NO_DEADLINE, ErrorStatus, FencedExecutionInfo, Timing
from nnhal_devices.backend import CommandQueue
from nnhal_devices.host.bound_request import BoundRequest, Conclude
from nnhal_devices.host.callback import FencedExecution
from nnhal_devices.host.clock import now_ns, require_ahead
from nnhal_hosting.logs import get_logger
from nnhal_hosting.rpc import defect

_log = get_logger(__name__)
T = TypeVar("T")
MAX_LAUNCHED = 256
"""Fenced executions of one client that have not ended: each has a thread."""


_BRIEF_NS = 200_000


class Launching(Protocol):
    """A client, as far as it launches."""

    launched: LaunchCount

    @property
    def ended(self) -> Descriptor:
        """Becomes readable when the session is over. Raises RESOURCE_EXHAUSTED_TRANSIENT."""
        ...


class LaunchCount:
    """How many fenced executions of a client have not ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.value = 0

    def enter(self) -> None:
        """Count one more. Raises RESOURCE_EXHAUSTED_TRANSIENT."""
        with self._lock:
            if self.value >= MAX_LAUNCHED:
                raise HalError(
                    ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT,
                    f"{self.value} fenced executions of this session have not ended, at most {MAX_LAUNCHED} may be "
                    "launched",
                )
            self.value += 1

    def leave(self) -> None:
        """Count one less."""
        with self._lock:
            self.value -= 1


class Enqueued:
    """What was enqueued through one channel on an asynchronous device since its last sync, in order."""

    def __init__(self, queue: CommandQueue) -> None:
        self._queue = queue
        self._lock = threading.Lock()
        self._doing = threading.Lock()
        self._conclusions: list[Callable[[], FencedExecutionInfo]] = []
        self._failed: list[FencedExecutionInfo] = []
        self._closed = False

    def add(self, conclude: Callable[[], FencedExecutionInfo]) -> None:
        """One more, with what says how it ended once the queue has been synced."""
        with self._lock:
            self._conclusions.append(conclude)
            closed = self._closed
        if closed:
            self.sync()

    def sync(self) -> list[FencedExecutionInfo]:
        """Have all of it done and made visible, and say how it ended."""
        with self._doing:
            failed, self._failed = self._failed, []
            return [*failed, *self._do()]

    def flush(self) -> None:
        """As sync, which will still say that something has failed."""
        with self._doing:
            found = [*self._failed, *self._do()]
            self._failed = [info for info in found if info.status != ErrorStatus.NONE][:1]

    def _do(self) -> list[FencedExecutionInfo]:
        with self._lock:
            conclusions, self._conclusions = self._conclusions, []
        self._queue.sync()
        return [conclude() for conclude in conclusions]

    def close(self) -> None:
        """Nobody will sync any more, and the queue would hold on to what is in it: do it now, and what comes later."""
        with self._lock:
            self._closed = True
        self.sync()


class Launcher:
    """Launches executions. Safe to use from several threads.

    ``synchronous`` makes it a device that computes in the call: it returns no fence, and raises what went wrong.
    """

    def __init__(self, queue: CommandQueue | None = None, synchronous: bool = False) -> None:
        """``queue`` is the one of an asynchronous device."""
        self._queue = queue
        self._synchronous = synchronous

    def launch(
        self,
        bound: BoundRequest,
        fences: Sequence[Fence],
        deadline_ns: int,
        duration_ns: int,
        client: Launching,
        answer: Callable[[FencedExecution, Fence | None], T],
        enqueued: Enqueued | None = None,
    ) -> tuple[T, Launch | None]:
        """Check everything that can be checked now, and return what ``answer`` makes of it and what is left to be run.

        The caller runs it, or leaves that to ``start``. ``answer`` is called with the execution and its fence, None
        where it has ended; where that fails, nothing is launched. Raises INVALID_ARGUMENT for bad numbers, open
        outputs, and fences that are in error already; GENERAL_FAILURE where the execution is in flight already or a
        device buffer has nothing to read; RESOURCE_EXHAUSTED_TRANSIENT where too much is launched.

        With ``enqueued`` the fence of an asynchronous device signals when the execution is in its queue.
        """
        launched_ns = now_ns()
        if min(deadline_ns, duration_ns) < NO_DEADLINE:
            invalid_argument(f"deadline {deadline_ns} ns and duration {duration_ns} ns, expected -1 or more each")
        _require_no_error(fences)
        bound.require_known_outputs()
        require_ahead(deadline_ns)
        bound.hold()
        try:
            if bound.uses:
                bound.uses.require_launchable()
            client.ended.fileno()  # there must be one to wait on
            client.launched.enter()
        except BaseException:
            bound.let_go()
            raise
        if bound.uses:
            bound.uses.begin()
        launch = Launch(bound, fences, deadline_ns, duration_ns, client, launched_ns, enqueued)
        if self._synchronous:
            info = launch.execute()
            if info.status != ErrorStatus.NONE:
                raise HalError(info.status, info.message)
            return answer(launch.execution, None), None
        try:
            launch.signal, fence = _new_fence()
            answered = answer(launch.execution, fence)
        except BaseException:
            launch.let_go()
            raise
        return answered, launch

    def enqueued(self) -> Enqueued | None:
        """For one channel: what it enqueues. None on a device that is not asynchronous."""
        return Enqueued(self._queue) if self._queue is not None else None

    def sync(self, fences: Sequence[Fence], client: Launching, enqueued: Enqueued | None) -> tuple[Fence, Sync]:
        """A fence that signals when all that was enqueued is visible, and what is left to be run.

        Raises INVALID_ARGUMENT for fences that are in error, RESOURCE_EXHAUSTED_TRANSIENT.
        """
        _require_no_error(fences)
        client.launched.enter()
        try:
            signal, fence = _new_fence()
        except BaseException:
            client.launched.leave()
            raise
        return fence, Sync(fences, client, enqueued, signal)


def _require_no_error(fences: Sequence[Fence]) -> None:
    for number, fence in enumerate(fences):
        if fence.state is FenceState.ERROR:
            invalid_argument(f"fence {number} to wait for is in error")


def fences_from(descriptors: list[Descriptor]) -> list[Fence]:
    """Fences to wait for. Raises INVALID_ARGUMENT where a descriptor is none."""
    try:
        return [Fence(descriptor) for descriptor in descriptors]
    except ValueError as error:
        raise HalError(ErrorStatus.INVALID_ARGUMENT, f"waiting for {error}") from error


def _new_fence() -> tuple[Signal, Fence]:
    try:
        return create_fence()
    except OSError as error:
        raise HalError(ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT, f"no fence to be had: {error}") from error


def start(launch: Launch) -> None:
    """Have a launched execution run in a thread of its own."""
    try:
        threading.Thread(target=launch.run, name="fenced", daemon=True).start()
    except RuntimeError as error:
        launch.give_up(str(error))


def _info_of(error: HalError) -> FencedExecutionInfo:
    return FencedExecutionInfo(error.status, message=error.message)


class Launch:
    """One launched execution, to be run once or given up."""

    def __init__(
        self,
        bound: BoundRequest,
        fences: Sequence[Fence],
        deadline_ns: int,
        duration_ns: int,
        client: Launching,
        launched_ns: int,
        enqueued: Enqueued | None,
    ) -> None:
        self.execution = FencedExecution()
        self.signal: Signal | None = None
        self._bound = bound
        self._fences = fences
        self._deadline_ns = deadline_ns
        self._duration_ns = duration_ns
        self._client = client
        self._launched_ns = launched_ns
        self._enqueued = enqueued

    @property
    def is_brief(self) -> bool:
        """Whether it can begin at once, and took less the last time than a wake-up of another thread."""
        return not self._fences and 0 < self._bound.last_run_ns < _BRIEF_NS

    def run(self) -> None:
        """Execute it, or enqueue it, and signal its fence or put it into error."""
        enqueued = self._enqueued
        if enqueued is None:
            self._signal(self.execute())
            return
        info = self._guarded(lambda: self._enqueue(enqueued))
        if info.status != ErrorStatus.NONE:
            self.end(info)
        self._signal(info)

    def give_up(self, reason: str) -> None:
        """It cannot be run."""
        info = _info_of(HalError(ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT, f"cannot be run: {reason}"))
        self.end(info)
        self._signal(info)

    def execute(self) -> FencedExecutionInfo:
        """Wait for the fences, run, and say how it ended."""
        return self._ended(self._guarded(self._execute))

    def conclude(self, conclude: Conclude, begun_ns: int) -> FencedExecutionInfo:
        """What was enqueued has run: say how it ended."""
        return self._ended(self._guarded(lambda: self._info(conclude, begun_ns)))

    def end(self, info: FencedExecutionInfo) -> None:
        """Let go of what it held, then say how it ended: whoever learns that it has can launch it again."""
        self.let_go()
        self.execution.end(info)

    def let_go(self) -> None:
        """Let go of what it held."""
        if self._bound.uses:
            self._bound.uses.end()
        self._bound.let_go()
        self._client.launched.leave()

    def _ended(self, info: FencedExecutionInfo) -> FencedExecutionInfo:
        self.end(info)
        return info

    def _signal(self, info: FencedExecutionInfo) -> None:
        if self.signal is not None:
            if info.status == ErrorStatus.NONE:
                self.signal.send()
            else:
                self.signal.fail()

    def _guarded(self, work: Callable[[], FencedExecutionInfo]) -> FencedExecutionInfo:
        """What some work finds out, also where it fails; then what it was to write is undefined."""
        try:
            return work()
        except HalError as error:
            info = _info_of(error)
        except Exception:
            _log.exception("a fenced execution failed")
            info = _info_of(defect())
        if self._bound.uses:
            self._bound.uses.spoil()
        return info

    def _execute(self) -> FencedExecutionInfo:
        begun_ns = self._wait()
        return self._info(lambda: self._bound.run_held(self._effective_deadline(begun_ns)), begun_ns)

    def _enqueue(self, enqueued: Enqueued) -> FencedExecutionInfo:
        begun_ns = self._wait()
        if self._bound.copies_inputs:
            enqueued.flush()  # what it copies now may be a result of what is in the queue
        conclude = self._bound.enqueue_held(self._effective_deadline(begun_ns))
        enqueued.add(lambda: self.conclude(conclude, begun_ns))
        return _ENQUEUED

    def _info(self, run: Conclude, begun_ns: int) -> FencedExecutionInfo:
        bound = self._bound
        result, staging = run()
        if not result.output_sufficient_size:
            general_failure("an output did not fit its memory")
        bound.last_run_ns = now_ns() - begun_ns
        if not bound.measures:
            return FencedExecutionInfo(ErrorStatus.NONE, staged_bytes=staging.bytes, staging_ns=staging.duration_ns)
        fenced = result.timing
        waited_ns = begun_ns - self._launched_ns
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
        """Wait for the fences; the instant at which all had signalled. Raises HalError."""
        _wait(self._fences, self._deadline_ns, self._client)
        return now_ns()

    def _effective_deadline(self, begun_ns: int) -> int:
        if self._duration_ns == NO_DEADLINE:
            return self._deadline_ns
        end = begun_ns + self._duration_ns
        return end if self._deadline_ns == NO_DEADLINE else min(end, self._deadline_ns)


class Sync:
    """Makes what was enqueued visible, then signals."""

    is_brief = False

    def __init__(self, fences: Sequence[Fence], client: Launching, enqueued: Enqueued | None, signal: Signal) -> None:
        self._fences = fences
        self._client = client
        self._enqueued = enqueued
        self._signal = signal

    def run(self) -> None:
        """Wait for the fences, sync, and signal; in error where something that was enqueued has failed."""
        try:
            _wait(self._fences, NO_DEADLINE, self._client)
            ended = self._enqueued.sync() if self._enqueued is not None else []
            failed = any(info.status != ErrorStatus.NONE for info in ended)
        except HalError:
            failed = True
        except Exception:
            _log.exception("a sync failed")
            failed = True
        self._client.launched.leave()
        if failed:
            self._signal.fail()
        else:
            self._signal.send()


def _wait(fences: Sequence[Fence], deadline_ns: int, client: Launching) -> None:
    try:
        wait_for_all(fences, deadline_ns, client.ended.fileno())
    except FenceError as error:
        general_failure(str(error))
    except TimeoutError as error:
        raise HalError(ErrorStatus.MISSED_DEADLINE_TRANSIENT, str(error)) from error


_ENQUEUED = FencedExecutionInfo(ErrorStatus.NONE)
