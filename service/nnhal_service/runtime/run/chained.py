"""Chained steps: all are launched at once, ordered by fences, and the devices run without the framework in between."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from nnhal.errors import HalError, NnhalError, TransportError
from nnhal.fence import Fence, FenceError, FenceState
from nnhal.injected import injected_faults_of
from nnhal.link import ProtocolError, Traffic
from nnhal.remote import RemoteLauncher
from nnhal.reports import StepReport
from nnhal.types import NO_DEADLINE, UNAVAILABLE_TIMING, ErrorStatus, FencedExecutionInfo, Timing
from nnhal_service.runtime.run.cancellation import Cancellation, CancelledRunError, require_wanted
from nnhal_service.runtime.run.reports import OutputReport, step_on
from nnhal_service.runtime.run.steps import BoundStep

MAX_FENCES = 16
"""How many fences one launch may wait for."""


class Chained:
    """Steps that are launched together, with fences between them. The sizes of all outputs must be known, and answers
    be numbered: with an answer too many, a fence would be that of another step.
    """

    def __init__(
        self,
        steps: Sequence[BoundStep],
        needs: Sequence[tuple[int, ...]],
        shown: frozenset[int],
        measure: bool,
        traffic: Traffic,
    ) -> None:
        """``needs`` are the dependencies of each step, ``shown`` the steps of asynchronous devices that must be synced.

        Raises HalError if a device refuses, TransportError if one is gone.
        """
        self._steps = tuple(zip(steps, needs, strict=True))
        used = {need for each in needs for need in each}
        self._shown = shown | {
            need
            for step, each in self._steps
            for need in each
            if steps[need].is_asynchronous and steps[need].device != step.device
        }
        self._ends = tuple(sorted((set(range(len(steps))) - used) | self._shown))
        self._measure = measure
        self._done: list[StepReport] | None = None
        self._launched: list[Launched] = []
        """The steps of the last run that was not launched by others."""
        self._launchers: dict[str, RemoteLauncher] = {}
        try:
            for step in steps:
                if step.device not in self._launchers:
                    launcher = self._launchers[step.device] = step.part.member.remote.open_launcher()
                    launcher.traffic = traffic
        except BaseException:
            self.close()
            raise

    @property
    def is_lost(self) -> bool:
        """Return whether a launch channel has ended. The steps are of no use then, but are to be closed."""
        return any(launcher.is_over for launcher in self._launchers.values())

    @property
    def done(self) -> Sequence[StepReport] | None:
        """The steps that succeeded. One that waited for a failed step has failed too, so no input was overwritten."""
        return self._done

    def run(
        self, deadline_ns: int, cancellation: Cancellation | None = None
    ) -> tuple[list[StepReport], list[OutputReport]]:
        """Run all steps. A cancellation puts their fences into error, so that no step begins that waits for one."""
        self._done = None
        launched = self._launched = []
        if cancellation is None:
            return self._run(launched, deadline_ns, None)
        abort = partial(abort_launched, launched)
        cancellation.on_cancel(abort)
        try:
            return self._run(launched, deadline_ns, cancellation)
        except NnhalError as error:
            if cancellation.cancelled and not isinstance(error, CancelledRunError):
                raise CancelledRunError from error
            raise
        finally:
            cancellation.forget(abort)

    def launch(
        self,
        launched: list[Launched],
        fences: Sequence[Fence],
        deadline_ns: int = NO_DEADLINE,
        duration_ns: int = NO_DEADLINE,
        cancellation: Cancellation | None = None,
    ) -> None:
        """Launch all steps, those without dependencies after ``fences``, which are at most MAX_FENCES.

        A step may take ``duration_ns`` from the moment when the last fence that it waits for has signalled. Steps that
        were launched are in ``launched`` even if a device refuses. Raises HalError, TransportError if a device is
        gone, and CancelledRunError if the run is cancelled before all are launched.
        """
        for number, (step, needs) in enumerate(self._steps):
            require_wanted(cancellation)
            earlier = [launched[need] for need in needs]
            waited = [need.ended if need.device == step.device else need.visible for need in earlier]
            awaited = [fence for fence in waited if fence is not None] if needs else list(fences)
            launched.append(self._launch(number, step, awaited, deadline_ns, duration_ns))
        require_wanted(cancellation)  # a cancellation may have missed the last fence

    def finish(self, launched: Sequence[Launched]) -> tuple[list[StepReport], list[OutputReport]]:
        """Wait until all launched steps have ended. Raises as ``run`` does."""
        try:
            for end in self._ends:
                _wait(launched[end].visible)
            infos = self._infos(len(launched))
        except FenceError as error:
            self.settle(launched)
            raise self._cause(len(launched)) or TransportError(
                f"a step failed, and no device says why: {error}{self._injected(len(launched))}"
            ) from error
        except BaseException:
            self.settle(launched)
            raise
        failed = self._cause_in(infos)
        if failed is not None:
            raise failed
        return [self._report(number, info) for number, info in enumerate(infos)] if self._measure else [], []

    def has_failed(self, launched: Sequence[Launched]) -> bool:
        """Return whether a launched step is known to have failed; a device then refuses steps that wait for it."""
        fences = (fence for launch in launched for fence in (launch.ended, launch.visible) if fence is not None)
        return any(fence.state is FenceState.ERROR for fence in fences)

    def failure(self, launched: Sequence[Launched], error: NnhalError) -> NnhalError:
        """Return why a launched step failed, once all have ended; ``error`` if no device says."""
        self.settle(launched)
        return self._cause(len(launched)) or error

    def timings(self) -> tuple[Timing, Timing]:
        """Timings of the last run from its launch and from the last awaited fence, if it was one measured step."""
        if not self._measure or len(self._steps) > 1:
            return UNAVAILABLE_TIMING, UNAVAILABLE_TIMING
        (info,) = self._infos(1)
        return info.timing_launched, info.timing_fenced

    def _run(
        self, launched: list[Launched], deadline_ns: int, cancellation: Cancellation | None
    ) -> tuple[list[StepReport], list[OutputReport]]:
        try:
            self.launch(launched, (), deadline_ns, cancellation=cancellation)
        except HalError as error:
            self.settle(launched)
            cause = self._cause(len(launched))  # a step that waits for a failed one is refused
            if cause is None:
                raise
            raise cause from error
        except CancelledRunError:
            abort_launched(launched)
            self.settle(launched)
            raise
        except BaseException:
            self.settle(launched)
            raise
        return self.finish(launched)

    def _launch(
        self, number: int, step: BoundStep, waited: Sequence[Fence], deadline_ns: int, duration_ns: int
    ) -> Launched:
        """Launch a step. On its own device the queue orders it; results of other devices must be visible first."""
        launcher = self._launchers[step.device]
        ended = launcher.launch(step.execution, waited, deadline_ns, duration_ns, enqueue=step.is_asynchronous)
        visible = ended
        if number in self._shown:
            visible = launcher.sync([ended] if ended is not None else [])
        if visible is None and (
            number in self._shown or not step.is_asynchronous
        ):  # a step may begin that waits for it
            info = self._ended(step)
            if info.status:
                raise _failure(step, info)
        return Launched(step.device, ended, visible)

    def _infos(self, launched: int) -> list[FencedExecutionInfo]:
        """Return how launched steps have ended whose fences have signalled, or that have none. Raises as ``_ended``."""
        return [self._ended(step) for step, _ in self._steps[:launched]]

    def _ended(self, step: BoundStep) -> FencedExecutionInfo:
        """Return how a step has ended (getExecutionInfo).

        Raises TransportError if its device says that it has not: it may still write to its memory.
        """
        try:
            return self._launchers[step.device].info(step.execution)
        except HalError as error:
            said = f"{step_on(step.device)} has no pending fence, and its device does not say how it ended: {error}"
            raise TransportError(said) from ProtocolError(said)

    def stop(self) -> None:
        abort_launched(self._launched)

    def close(self) -> None:
        for launcher in self._launchers.values():
            launcher.close()

    def settle(self, launched: Sequence[Launched]) -> None:
        """Wait until every launched step has ended, since they use the memory of the run."""
        for launch in launched:
            if launch.ended is not None:
                launch.ended.wait_for_end()
        for device in {step.device for step, _ in self._steps if step.is_asynchronous}:
            with contextlib.suppress(FenceError, NnhalError):
                _wait(self._launchers[device].sync())

    def _cause(self, launched: int) -> HalError | None:
        """The error of the first launched step that failed; those that waited for it have failed because of it."""
        return self._cause_in(self._infos(launched))

    def _cause_in(self, infos: Sequence[FencedExecutionInfo]) -> HalError | None:
        ended = [info.status == ErrorStatus.NONE for info in infos]
        if all(ended) and len(ended) == len(self._steps):
            return None
        if all(ended[need] for (_, needs), well in zip(self._steps, ended, strict=False) if well for need in needs):
            self._done = [self._report(number, infos[number]) for number, well in enumerate(ended) if well]
        if all(ended):
            return None
        first = ended.index(False)
        return _failure(self._steps[first][0], infos[first])

    def _injected(self, launched: int) -> str:
        """The faults that launched steps have noted, for a message."""
        noted = [injected_faults_of(info.copies) for info in self._infos(launched)]
        steps = [step for step, _ in self._steps[:launched]]
        return "".join(f"; {step_on(step.device)}{faults}" for step, faults in zip(steps, noted, strict=True) if faults)

    def _report(self, number: int, info: FencedExecutionInfo) -> StepReport:
        step, _ = self._steps[number]
        timing = info.timing_fenced
        return StepReport(
            step.device,
            timing.time_in_driver_ns,
            timing.time_on_device_ns,
            timing.time_in_driver_ns,
            info.staged_bytes,
            info.staging_ns,
            number,
            *info.span,
            info.copies,
        )


def _failure(step: BoundStep, info: FencedExecutionInfo) -> HalError:
    return HalError(info.status, f"{step_on(step.device)}: {info.message}")


class Launched(NamedTuple):
    """A launched step: the fence of its end, and that of its results being visible; None if that has happened.

    On an asynchronous device a step ends when it is in the queue.
    """

    device: str
    ended: Fence | None
    visible: Fence | None


def abort_launched(launched: Sequence[Launched]) -> None:
    """Put the fences of launched steps into error. May be called in any thread, also while more are launched."""
    for launch in tuple(launched):
        for fence in (launch.ended, launch.visible):
            if fence is not None:
                fence.cancel()


def _wait(fence: Fence | None) -> None:
    if fence is not None:
        fence.wait()
