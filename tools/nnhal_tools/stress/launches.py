"""Launched executions until they are settled, and the client's fences for which they wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nnhal.errors import HalError
from nnhal.fence import Fence, FenceError, FenceState, Signal
from nnhal.types import ErrorStatus, FencedExecutionInfo
from nnhal_tools.stress.faults import Instant
from nnhal_tools.stress.outcomes import ANY, FAILURE, MISSED, OK, Statuses, Violation, ask, describe, require
from nnhal_tools.stress.plan import RequestPlan

_SETTLE_SECONDS = 50.0


@dataclass(eq=False)
class FenceGate:
    """A fence of this process, which holds launches until it is signalled."""

    signal: Signal
    fence: Fence
    is_open: bool = True

    def end(self, well: bool) -> None:
        """Signal it, or fail it."""
        self.is_open = False
        if well:
            self.signal.send()
        else:
            self.signal.fail()


@dataclass(eq=False)
class HeldLaunch:
    """A launched execution, which waits for gates and for earlier launches."""

    plan: RequestPlan
    """The request."""
    fence: Fence | None
    """Its fence; None if the device is synchronous."""
    info: Callable[[], FencedExecutionInfo]
    """Asks for its result."""
    finish: Callable[[], object]
    """Releases what the device keeps for its result."""
    gates: Sequence[FenceGate]
    """Gates for which it waits."""
    earlier: Sequence[HeldLaunch]
    """Launches for which it waits."""
    deadline: Instant
    """When it must have ended."""
    duration: Instant
    """How long it may take after its fences."""
    allowed: Statuses
    """Statuses with which it may end."""
    settled: bool = False
    """Whether it was settled."""
    succeeded: bool = False
    """Whether it ended with NONE."""

    @property
    def is_held(self) -> bool:
        """True if it cannot have ended: a gate is open or an earlier launch is held, and none has failed."""
        if self._was_bounded or any(gate.fence.state is FenceState.ERROR for gate in self.gates):
            return False
        if not all(other.is_held or (other.settled and other.succeeded) for other in self.earlier):
            return False
        return any(gate.is_open for gate in self.gates) or any(other.is_held for other in self.earlier)

    def inquire(self) -> ErrorStatus:
        """Ask for its result before it is known, which may be refused only while its fence is pending."""
        held, state = self.is_held, self._state()
        try:
            status = self.info().status
        except HalError as error:
            require(state is FenceState.PENDING, f"{error}, though its fence is {state.name}")
            require(error.status in FAILURE, f"{error}; allowed: {describe(FAILURE)}")
            return error.status
        require(not held, f"{self.plan}: it ended with {status.name} before its fences have signalled")
        return ErrorStatus.NONE

    def settle(self) -> ErrorStatus:
        """Wait for its end and check status, fence, answers and outputs. Raises Violation."""
        for gate in self.gates:
            if gate.is_open:
                require(self._state() is not FenceState.SIGNALLED, "it signalled before the fences for which it waits")
                gate.end(well=True)
        for other in self.earlier:
            if not other.settled:
                other.settle()
        self.settled = True
        self.succeeded = self._wait()
        info = ask(self.info, takes=False).value
        require(info == ask(self.info, takes=False).value, f"{self.plan}: two different results")
        allowed = self._allowed()
        require(
            info.status in allowed,
            f"{self.plan}: it ended with {info.status.name} ({info.message}); allowed: {describe(allowed)}",
        )
        require(
            self.succeeded == (info.status == ErrorStatus.NONE),
            f"{self.plan}: its fence disagrees with its result {info}",
        )
        self._check_timing(info)
        self.plan.end(info.status)
        if self.succeeded:
            self.plan.verify(None)
        else:
            self.plan.verify_untouched()
        self.finish()
        return info.status

    @property
    def _was_bounded(self) -> bool:
        return self.deadline.bounds or self.duration.bounds

    @property
    def _was_failed(self) -> bool:
        return any(gate.fence.state is FenceState.ERROR for gate in self.gates) or any(
            not other.succeeded for other in self.earlier
        )

    def _state(self) -> FenceState:
        return FenceState.SIGNALLED if self.fence is None else self.fence.state

    def _allowed(self) -> Statuses:
        extra = MISSED if self._was_bounded else frozenset()
        # A deadline may end the wait before the awaited fence fails.
        if any(buffer.raced for buffer in self.plan.uses.buffers):
            extra |= ANY
        return FAILURE | extra if self._was_failed else self.allowed | extra

    def _wait(self) -> bool:
        if self.fence is None:
            return True
        started = time.monotonic()
        try:
            self.fence.wait(_SETTLE_SECONDS)
        except FenceError:
            return False
        except TimeoutError:
            raise Violation(f"{self.plan}: no fence after {time.monotonic() - started:.0f} s") from None
        return True

    def _check_timing(self, info: FencedExecutionInfo) -> None:
        measured = self.plan.config.measure_timing and info.status in OK
        figures = (info.timing_launched, info.timing_fenced)
        given = any(value != -1 for t in figures for value in (t.time_on_device_ns, t.time_in_driver_ns))
        require(measured or not given, f"{self.plan}: {figures}, though timing was not requested")
