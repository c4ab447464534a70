"""Wired steps: they run one another on their devices, and a run is one datagram out and one in."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from google.protobuf.message import DecodeError

from nnhal.descriptor import Descriptor
from nnhal.errors import DeadObjectError, HalError, TransportError, general_failure
from nnhal.link import CallChannel, ChannelClosedError, ProtocolError, Traffic
from nnhal.link.call_channel import call_channel_from
from nnhal.memory.ashmem import create_sealed
from nnhal.remote.burst import checked_outcome
from nnhal.remote.execution import burst_run
from nnhal.reports import StepReport
from nnhal.types import NO_DEADLINE, ErrorStatus
from nnhal.v1 import burst_pb2
from nnhal_service.runtime.run.cancellation import Cancellation, CancelledRunError, require_wanted
from nnhal_service.runtime.run.reports import step_on
from nnhal_service.runtime.run.steps import (
    BoundStep,
    Outcome,
    executions_of,
    require_fitting,
    step_report,
)
from nnhal_service.runtime.run.wiring import Bells, Stragglers, Wiring

_RUN_NUMBER = struct.Struct("=q")


class Wired:
    """Steps that are wired before their first run. The sizes of all outputs must be known, and answers be numbered."""

    def __init__(
        self, steps: Sequence[BoundStep], bells: Bells, stragglers: Stragglers, measure: bool, traffic: Traffic
    ) -> None:
        """``stragglers`` learns of devices that may still be at work on a run that was lost."""
        self.bells = bells
        self._steps = tuple(steps)
        self._stragglers = stragglers
        self._measure = measure
        self._traffic = traffic
        self._chain: _Chain | None = None
        self._plain_call = burst_run(steps[0].execution.handle, NO_DEADLINE)
        self._plain_answer: bytes | None = None
        self._done: list[StepReport] | None = None
        self._watched: tuple[Cancellation, Callable[[], None]] | None = None
        self.is_lost = False
        """True if the chain has ended with a run. The steps are of no use then, but are to be closed."""

    @property
    def done(self) -> Sequence[StepReport] | None:
        """After a step has failed, all that do not wait for it: they have run. None if the run was lost."""
        return self._done

    @property
    def is_ready(self) -> bool:
        return self._chain is not None and not self.is_lost

    def wire(self) -> None:
        """Wire the steps, once. Raises HalError if a device refuses, TransportError if one is gone."""
        cancelled = create_sealed(_RUN_NUMBER.size, "nnhal-cancelled")
        wiring = Wiring(executions_of(self._steps), self.bells, self._stragglers, cancelled)
        self._chain = _Chain(wiring, call_channel_from(wiring.take_caller_end(), is_numbered=True), cancelled)
        self._chain.channel.traffic = self._traffic
        for step in self._steps:
            step.part.prepared.calls.end_with_session(self._chain.channel)

    def run(self, deadline_ns: int, cancellation: Cancellation | None = None) -> Outcome:
        self._begin(deadline_ns, cancellation)
        return self.finish()

    def start(self, deadline_ns: int, cancellation: Cancellation | None = None) -> bool:
        if not self.is_ready:
            return False
        self._begin(deadline_ns, cancellation)
        return True

    def _begin(self, deadline_ns: int, cancellation: Cancellation | None) -> None:
        require_wanted(cancellation)
        chain = self._wired()
        self._done = None
        chain.runs += 1
        if cancellation is not None:
            self._watched = (cancellation, partial(self._stop, chain, chain.runs))
            cancellation.on_cancel(self._watched[1])
        try:
            chain.channel.send(
                self._plain_call if deadline_ns == NO_DEADLINE else burst_run(chain.wiring.execution, deadline_ns)
            )
        except (ChannelClosedError, ProtocolError) as error:
            self._watch_no_more()
            raise self._lost(error) from error

    def fileno(self) -> int:
        return self._wired().channel.fileno()

    def finish(self) -> Outcome:
        try:
            answer = self._wired().channel.receive()
            # Without measuring, all runs that succeed have the same answer.
            reports = [] if answer == self._plain_answer else self._reports(answer)
        except (ChannelClosedError, ProtocolError, DecodeError) as error:
            lost = self._lost(error)
            try:
                self._watch_no_more(lost)
                raise lost from error
            finally:
                del lost  # whose frames hold this one
        except HalError as error:
            self._watch_no_more(error)
            raise
        self._watch_no_more()
        return reports, []

    def stop(self) -> None:
        chain = self._chain
        if chain is not None:
            self._stop(chain, chain.runs)

    def close(self) -> None:
        """Unwire the steps. When this returns, devices that answer are not at work on them."""
        chain, self._chain = self._chain, None
        if chain is not None:
            chain.channel.close()
            chain.wiring.unwire()

    def _stop(self, chain: _Chain, run: int) -> None:
        """Have no step of a run begin from now on, and those that have begun end. The chain ends with the run."""
        chain.cancel(run)
        if run == chain.runs:  # a cancellation may come late
            self.is_lost = True
            chain.channel.end_sending()

    def _wired(self) -> _Chain:
        if self._chain is None:
            raise TypeError("the steps are to be wired before they run")
        return self._chain

    def _watch_no_more(self, error: Exception | None = None) -> None:
        """Forget the cancellation of the run, which has ended. Raises CancelledRunError if it was cancelled."""
        watched, self._watched = self._watched, None
        if watched is None:
            return
        cancellation, cancel = watched
        cancellation.forget(cancel)
        if cancellation.cancelled:
            raise CancelledRunError from error

    def _lost(self, error: Exception) -> TransportError:
        """The error of a run whose chain has ended; devices may still be at work on it until ``close``."""
        self.is_lost = True
        gone = sorted({step.device for step in self._steps if step.part.prepared.gone})
        if gone:
            return DeadObjectError(f"the run was lost with {', '.join(gone)}: {error}")
        return TransportError(f"the run was lost: {error}")

    def _reports(self, message: bytes) -> list[StepReport]:
        """Decode an answer. Raises HalError if a step has failed, DecodeError or ProtocolError if it is malformed."""
        answer = burst_pb2.BurstAnswer.FromString(message)
        ended = {step.step: step.answer for step in answer.steps}
        if answer.status:
            failed = {number for number, step in ended.items() if step.status}
            left = failed | self.bells.behind(failed)
            self._done = [self._report(number, ended) for number in range(len(self._steps)) if number not in left]
            raise HalError(ErrorStatus(answer.status), answer.message)
        if not answer.result.output_sufficient_size:  # nor is it if there is no result
            general_failure(
                f"{step_on(self._steps[-1].device)}: it answered for the chain that an output does not fit, or with no "
                "result, though all sizes are known"
            )
        if not self._measure:
            self._plain_answer = message
            return []
        missing = sorted(set(range(len(self._steps))) - ended.keys())
        if missing:
            raise ProtocolError(f"the answer of a chain lacks the reports of steps {missing}")
        return [self._report(number, ended) for number in range(len(self._steps))]

    def _report(self, number: int, ended: dict[int, burst_pb2.BurstAnswer]) -> StepReport:
        step = self._steps[number]
        if number not in ended:
            return StepReport(step.device, -1, -1, -1, 0, 0, number)
        outcome = checked_outcome(ended[number], step.execution.outputs, step.device)
        require_fitting(step, outcome)
        return step_report(number, step.device, outcome.result.timing.time_in_driver_ns, outcome)


@dataclass(slots=True)
class _Chain:
    """Steps while they are wired."""

    wiring: Wiring
    channel: CallChannel
    cancelled: Descriptor
    """Memory that the devices have mapped, with the number of the last cancelled run."""
    runs: int = 0

    def cancel(self, run: int) -> None:
        os.pwrite(self.cancelled.fileno(), _RUN_NUMBER.pack(run), 0)
