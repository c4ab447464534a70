"""Fenced executions: launched now, begun when their fences have signalled, and waited for by a fence."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

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
MAX_LAUNCHED = 64
"""Fenced executions of one client that have not ended: each has a thread."""


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

    def __init__(self, max_clients: int, synchronous: bool = False) -> None:
        self._synchronous = synchronous
        self._threads = ThreadPoolExecutor(max_clients * MAX_LAUNCHED, thread_name_prefix="fenced")

    def launch(
        self, bound: BoundRequest, fences: Sequence[Fence], deadline_ns: int, duration_ns: int, client: Launching
    ) -> tuple[FencedExecution, Fence | None]:
        """Check everything that can be checked now, and launch it.

        Raises INVALID_ARGUMENT for bad numbers, open outputs, and fences that are in error already; GENERAL_FAILURE
        where the execution is in flight already or a device buffer has nothing to read.
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
        run = _Run(bound, fences, deadline_ns, duration_ns, client, launched_ns)
        if self._synchronous:
            run.execute()
            run.finish()
            if run.error is not None:
                raise run.error
            return run.execution, None
        try:
            signal, fence = create_fence()
            self._threads.submit(_run, run, signal)
        except (OSError, RuntimeError) as error:
            run.let_go()
            raise HalError(ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT, f"cannot launch: {error}") from error
        return run.execution, fence


def fences_from(descriptors: list[Descriptor]) -> list[Fence]:
    """Fences to wait for. Raises INVALID_ARGUMENT where a descriptor is none."""
    try:
        return [Fence(descriptor) for descriptor in descriptors]
    except ValueError as error:
        raise HalError(ErrorStatus.INVALID_ARGUMENT, f"waiting for {error}") from error


def _run(run: _Run, signal: Signal) -> None:
    run.execute()
    run.finish()
    if run.error is None:
        signal.send()
    else:
        signal.fail()


class _Run:
    """One launched execution."""

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
        self.error: HalError | None = None
        self._bound = bound
        self._fences = fences
        self._deadline_ns = deadline_ns
        self._duration_ns = duration_ns
        self._client = client
        self._launched_ns = launched_ns
        self._info = FencedExecutionInfo(ErrorStatus.NONE)

    def execute(self) -> None:
        """Wait for the fences and run; what goes wrong is in ``error``."""
        try:
            self._info = self._execute()
        except HalError as error:
            self.error = error
        except Exception:
            _log.exception("a fenced execution failed")
            self.error = defect()

    def finish(self) -> None:
        """Say how it ended and let go of what it held: whoever waits for its fence finds everything done."""
        error = self.error
        self.execution.end(self._info if error is None else FencedExecutionInfo(error.status, message=error.message))
        self.let_go()

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
