"""Fenced executions: launched now, begun when their fences have signalled, and waited for by a fence."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import structlog

from nnhal.descriptor import Descriptor
from nnhal.errors import HalError, general_failure, invalid_argument
from nnhal.fence import Fence, FenceError, FenceState, Signal, create_fence, wait_for_all
from nnhal.rpc import defect
from nnhal.types import NO_DEADLINE, ErrorStatus, FencedExecutionInfo, Timing
from nnhal_devices.host.bound_request import BoundRequest
from nnhal_devices.host.callback import FencedExecution
from nnhal_devices.host.clock import now_ns, require_ahead

_log = structlog.get_logger(__name__)
T = TypeVar("T")
MAX_LAUNCHED = 256
"""Fenced executions of one client that have not ended: each has a thread."""


_BRIEF_NS = 200_000


class Launching(Protocol):
    """A client, as far as it launches."""

    launched: LaunchCount
    ended: Descriptor
    """Becomes readable when the session is over."""


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


class Launcher:
    """Launches executions. Safe to use from several threads.

    ``synchronous`` makes it a device that computes in the call: it returns no fence, and raises what went wrong.
    """

    def __init__(self, synchronous: bool = False) -> None:
        self._synchronous = synchronous

    def launch(
        self,
        bound: BoundRequest,
        fences: Sequence[Fence],
        deadline_ns: int,
        duration_ns: int,
        client: Launching,
        answer: Callable[[FencedExecution, Fence | None], T],
    ) -> tuple[T, Launch | None]:
        """Check everything that can be checked now, and return what ``answer`` makes of it and what is left to be run.

        The caller runs it, or leaves that to ``start``. ``answer`` is called with the execution and its fence, None
        where it has ended; where that fails, nothing is launched. Raises INVALID_ARGUMENT for bad numbers, open
        outputs, and fences that are in error already; GENERAL_FAILURE where the execution is in flight already or a
        device buffer has nothing to read; RESOURCE_EXHAUSTED_TRANSIENT where too much is launched.
        """
        launched_ns = now_ns()
        if min(deadline_ns, duration_ns) < NO_DEADLINE:
            invalid_argument(f"deadline {deadline_ns} ns and duration {duration_ns} ns, expected -1 or more each")
        for number, fence in enumerate(fences):
            if fence.state is FenceState.ERROR:
                invalid_argument(f"fence {number} to wait for is in error")
        bound.require_known_outputs()
        require_ahead(deadline_ns)
        bound.hold()
        try:
            if bound.uses:
                bound.uses.require_launchable()
            client.launched.enter()
        except BaseException:
            bound.let_go()
            raise
        if bound.uses:
            bound.uses.begin()
        launch = Launch(bound, fences, deadline_ns, duration_ns, client, launched_ns)
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
    ) -> None:
        self.execution = FencedExecution()
        self.signal: Signal | None = None
        self._bound = bound
        self._fences = fences
        self._deadline_ns = deadline_ns
        self._duration_ns = duration_ns
        self._client = client
        self._launched_ns = launched_ns

    @property
    def is_brief(self) -> bool:
        """Whether it can begin at once, and took less the last time than a wake-up of another thread."""
        return not self._fences and 0 < self._bound.last_run_ns < _BRIEF_NS

    def run(self) -> None:
        """Execute it, and signal its fence or put it into error."""
        self._conclude(self.execute())

    def give_up(self, reason: str) -> None:
        """It cannot be run."""
        info = _info_of(HalError(ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT, f"cannot be run: {reason}"))
        self.end(info)
        self._conclude(info)

    def execute(self) -> FencedExecutionInfo:
        """Wait for the fences, run, and say how it ended."""
        try:
            info = self._execute()
        except HalError as error:
            info = _info_of(error)
        except Exception:
            _log.exception("a fenced execution failed")
            info = _info_of(defect())
        self.end(info)
        return info

    def end(self, info: FencedExecutionInfo) -> None:
        """Let go of what it held, then say how it ended: whoever learns that it has can launch it again."""
        self.let_go()
        self.execution.end(info)

    def _conclude(self, info: FencedExecutionInfo) -> None:
        if self.signal is not None:
            if info.status == ErrorStatus.NONE:
                self.signal.send()
            else:
                self.signal.fail()

    def let_go(self) -> None:
        """Let go of what it held."""
        if self._bound.uses:
            self._bound.uses.end()
        self._bound.let_go()
        self._client.launched.leave()

    def _execute(self) -> FencedExecutionInfo:
        bound = self._bound
        try:
            self._wait()
            begun_ns = now_ns()
            result, staging = bound.run_held(self._effective_deadline(begun_ns))
        except BaseException:
            if bound.uses:
                bound.uses.spoil()
            raise
        if not result.output_sufficient_size:
            general_failure("an output did not fit its memory")
        on_device, ended_ns = result.timing.time_on_device_ns, now_ns()
        bound.last_run_ns = ended_ns - begun_ns
        if not bound.measures:
            return FencedExecutionInfo(ErrorStatus.NONE, staged_bytes=staging.bytes, staging_ns=staging.duration_ns)
        return FencedExecutionInfo(
            ErrorStatus.NONE,
            Timing(on_device, ended_ns - self._launched_ns),
            Timing(on_device, ended_ns - begun_ns),
            staged_bytes=staging.bytes,
            staging_ns=staging.duration_ns,
        )

    def _wait(self) -> None:
        try:
            wait_for_all(self._fences, self._deadline_ns, self._client.ended.fileno())
        except FenceError as error:
            general_failure(str(error))
        except TimeoutError as error:
            raise HalError(ErrorStatus.MISSED_DEADLINE_TRANSIENT, str(error)) from error

    def _effective_deadline(self, begun_ns: int) -> int:
        if self._duration_ns == NO_DEADLINE:
            return self._deadline_ns
        end = begun_ns + self._duration_ns
        return end if self._deadline_ns == NO_DEADLINE else min(end, self._deadline_ns)
