"""The runs of one binding: which datagram goes out on which channel, and what the answer means."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Mapping, Sequence

from nnhal.codec.lengths import lengths_to_wire
from nnhal.errors import DeadObjectError, HalError, NnhalError, TransportError
from nnhal.link import Channel, ChannelClosedError, ProtocolError
from nnhal.remote import RemoteRunChannel
from nnhal.types import NO_DEADLINE, ErrorStatus
from nnhal.types.layout import Dimensions
from nnhal.v1 import framework_pb2 as wire
from nnhal_client.core.binding_memory import BindingMemory
from nnhal_client.reports import (
    RunReport,
    dimensions_from_wire,
    insufficient_outputs,
    output_dimensions,
    report_from_wire,
)

_log = logging.getLogger(__name__)
Exchanges = Generator[tuple[Channel, bytes], bytes, RunReport]
"""A run as datagrams. The driver sends each one on its channel, and answers with what comes back on it; if the channel
fails, it throws the error in."""

_EXPLAINED_BY_FRAMEWORK = (ErrorStatus.DEVICE_UNAVAILABLE, ErrorStatus.OUTPUT_INSUFFICIENT_SIZE)
"""The framework knows whether the model has been unloaded, and which dimensions an output has."""


class OutputTooSmallError(HalError):
    """An output did not fit its memory. ``dimensions`` has the dimensions of outputs that devices reported, by name."""

    def __init__(
        self, message: str, dimensions: Mapping[str, Dimensions], outputs: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(ErrorStatus.OUTPUT_INSUFFICIENT_SIZE, message)
        self.dimensions = dimensions
        self.outputs = outputs
        """Those that did not fit, as far as the framework says."""


class BindingRuns:
    """The runs of one binding, one at a time."""

    def __init__(
        self,
        place: str,
        channel: Channel,
        run_channels: Sequence[RemoteRunChannel],
        measures: bool,
        outputs: BindingMemory,
        inputs: Sequence[str],
    ) -> None:
        """``place`` names the framework in errors; ``channel`` is the binding's channel to it. ``inputs`` are named as
        they were bound.

        Of ``run_channels`` there are two for a model with a state, whose buffers change their roles with each run.
        """
        self._place = place
        self._channel = channel
        self._run_channels = tuple(run_channels)
        self._turns = max(1, len(run_channels))
        self._turn = 0
        """Which of them the next run is for: runs that have succeeded go to one after the other."""
        self._measures = measures
        self._outputs = outputs
        self._resizes = outputs.has_unknown_dimensions
        self._shown: Mapping[str, Dimensions] | None = None
        """The dimensions of the last run, which its outputs are shown in."""
        self._call = wire.RunCall(deadline_ns=NO_DEADLINE).SerializeToString()
        self._positions = {name: position for position, name in enumerate(inputs)}
        self._lengths: Mapping[str, Dimensions] = {}
        self.lost_run_channel = False
        """True if there was a run channel that has closed or failed. Runs go through the framework from then on."""

    @property
    def channels(self) -> list[Channel]:
        return [self._channel, *(run_channel.channel for run_channel in self._run_channels)]

    def resize(self, lengths: Mapping[str, Dimensions]) -> None:
        self._lengths = lengths
        for run_channel in self._run_channels:
            run_channel.resize(lengths)

    def run(self, deadline_ns: int = NO_DEADLINE) -> RunReport:
        """One run, for which the calling thread waits. Raises as ``exchanges``."""
        exchanges = self.exchanges(deadline_ns)
        try:
            channel, message = next(exchanges)
            while True:
                try:
                    channel.send(message)
                    answer = channel.receive()
                except NnhalError as error:
                    channel, message = exchanges.throw(error)
                else:
                    channel, message = exchanges.send(answer)
        except StopIteration as end:
            report: RunReport = end.value
            return report

    def exchanges(self, deadline_ns: int = NO_DEADLINE) -> Exchanges:
        """One run: direct if the binding has a run channel and the run no deadline, else through the framework.

        A direct run is repeated through the framework if the run channel fails or the device is unavailable, since the
        framework knows why, if an output needs more memory, since it knows how much, or if the device refuses and the
        fallback allows another device.

        Raises OutputTooSmallError, HalError if a device refuses or misses the deadline, DeadObjectError if the
        framework is gone.
        """
        if self._run_channels and deadline_ns == NO_DEADLINE:
            run_channel = self._run_channels[self._turn]
            try:
                call = run_channel.call()
                called_ns = time.perf_counter_ns()
                answer = yield run_channel.channel, call
                found = run_channel.check(answer)
                self._turn = (self._turn + 1) % self._turns
                if found is not self._shown:
                    self._show(found)
                return RunReport(time.perf_counter_ns() - called_ns, len(call) + len(answer), (), found, direct=True)
            except (ChannelClosedError, ProtocolError, TransportError) as error:
                self._run_channels = ()
                self.lost_run_channel = True
                reason = "" if isinstance(error, ChannelClosedError) else str(error)
                if reason:
                    run_channel.channel.shutdown()
                    _log.warning("a run channel ends, and runs go through the framework: %s", reason)
                return (yield from self._through_framework(deadline_ns, True, reason))
            except HalError as error:
                if not (run_channel.may_fall_back or error.status in _EXPLAINED_BY_FRAMEWORK):
                    raise
        return (yield from self._through_framework(deadline_ns))

    def _through_framework(self, deadline_ns: int, has_lost_channel: bool = False, reason: str = "") -> Exchanges:
        call = self._call
        if deadline_ns != NO_DEADLINE or has_lost_channel or self._turns > 1 or self._lengths:
            call = wire.RunCall(
                deadline_ns=deadline_ns,
                lost_run_channel=has_lost_channel,
                lost_because=reason,
                state_turn=self._turn if self._turns > 1 else None,
                lengths=lengths_to_wire([(self._positions[name], found) for name, found in self._lengths.items()]),
            ).SerializeToString()
        called_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) if self._measures else -1
        try:
            answer = wire.RunAnswer.FromString((yield self._channel, call))
        except ChannelClosedError as error:
            raise DeadObjectError(f"the framework at {self._place}: {error}") from error
        except ProtocolError as error:
            raise TransportError(f"the framework at {self._place}: {error}") from error
        report = self.ended(answer, called_ns)
        self._turn = (self._turn + 1) % self._turns
        return report

    def ended(self, answer: wire.RunAnswer | wire.GetLaunchedRunResponse, called_ns: int = -1) -> RunReport:
        """Return the report of a run that the framework tells of. Raises HalError for one that has failed."""
        if answer.status:
            status = ErrorStatus(answer.status)
            if status == ErrorStatus.OUTPUT_INSUFFICIENT_SIZE:
                raise self._too_small(answer.message, answer.report)
            raise HalError(status, answer.message)
        answered_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) if self._measures and called_ns >= 0 else -1
        report = report_from_wire(answer.report, called_ns, answered_ns)
        self._show(report.dimensions)
        return report

    def _show(self, dimensions: Mapping[str, Dimensions]) -> None:
        self._shown = dimensions
        if self._resizes:
            self._outputs.resize(dimensions)

    def _too_small(self, message: str, report: wire.RunReport) -> OutputTooSmallError:
        dimensions = dimensions_from_wire(report)
        message += self._outputs.shortage(dimensions)
        return OutputTooSmallError(message, dimensions, insufficient_outputs(report))


def run_channels_of(
    answer: wire.BindResponse, take: Callable[[int, bool], Channel], declared: Mapping[str, Dimensions]
) -> list[RemoteRunChannel]:
    """The run channels that a framework has offered for a binding, whose ends ``take`` fetches. ``declared`` are the
    dimensions of the model's outputs.
    """
    settled = output_dimensions(answer.outputs)
    return [
        RemoteRunChannel(
            take(offered.channel_descriptor_id, offered.numbers_answers),
            offered.execution,
            offered.may_fall_back,
            offered.outputs,
            settled,
            offered.inputs,
            declared,
        )
        for offered in (answer.run_channel, answer.odd_run_channel)
        if offered.channel_descriptor_id
    ]
