"""A model of the framework's process in a front worker: bound to the worker's memory, and run on the device itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from nnhal.errors import DeadObjectError, HalError, NnhalError, TransportError, general_failure
from nnhal.link import Channel, ChannelClosedError, ProtocolError
from nnhal.link.call_channel import call_channel_from
from nnhal.remote import RemoteRunChannel
from nnhal.types import NO_DEADLINE, ErrorStatus, Memory, Priority
from nnhal.types.layout import Dimensions
from nnhal_hosting.logs import get_logger
from nnhal_service.front_workers.served_worker import BoundRunChannel, BoundVersion, OpenedVersion
from nnhal_service.runtime import OutputReport, PreparedPlan, RunReport, TensorBinding
from nnhal_service.runtime.context.execution_context import DRAIN_SECONDS
from nnhal_service.runtime.run.cancellation import Cancellation, require_wanted
from nnhal_service.serving.errors import ServingError
from nnhal_service.unloaded import UnloadedError

_log = get_logger(__name__)


class RemoteModel:
    """The BindableModel of a version that the framework's process holds for this worker."""

    def __init__(self, opened: OpenedVersion) -> None:
        self._held = opened.held
        self.memory_kind = opened.memory_kind
        self.alignment = opened.alignment
        self.priority = opened.priority
        self.plan: PreparedPlan | None = None

    def bind(
        self,
        inputs: Sequence[TensorBinding],
        outputs: Sequence[TensorBinding],
        pools: Sequence[Memory],
        measure: bool,
        priority: Priority | None,
    ) -> RemoteBoundModel:
        return RemoteBoundModel(self._held.bind(inputs, outputs, pools, measure, priority))


class RemoteBoundModel:
    """The BoundModel of a version that the framework's process holds for this worker. Safe to use from several threads.

    A run that ``start`` starts is direct: one datagram to the device, and one back. ``run`` goes through the framework,
    which knows what to do after a failure, and then opens a new run channel if the last one has closed.
    """

    def __init__(self, bound: BoundVersion) -> None:
        self._binding = bound.binding
        self._busy = threading.Lock()
        self._closing = False
        self._is_direct = False
        self.planned = bound.planned
        self.exchange: RunChannelExchange | None = None
        """The run channel that is open; None if runs go through the framework."""
        self._connect(bound.run_channel)

    def run(self, deadline_ns: int = NO_DEADLINE, cancellation: Cancellation | None = None) -> RunReport:
        self._enter()
        try:
            return self.run_through_framework(deadline_ns, cancellation)
        finally:
            self.leave()

    def start(self, deadline_ns: int = NO_DEADLINE, cancellation: Cancellation | None = None) -> DirectRun | None:
        exchange = self.exchange
        if exchange is None:
            return None
        self._enter()
        try:
            require_wanted(cancellation)
            started = time.perf_counter_ns()
            if sent := exchange.start(deadline_ns):
                return DirectRun(self, exchange, started, sent, deadline_ns, cancellation)
        except BaseException:
            self.leave()
            raise
        self.disconnect()
        self.leave()
        return None

    def close(self, drain_seconds: float = DRAIN_SECONDS) -> None:
        self._closing = True
        if self._busy.acquire(timeout=drain_seconds):
            self._release()

    def disconnect(self) -> None:
        """Use the run channel no longer: the device has closed it, or does not keep to the protocol."""
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.channel.close()

    def leave(self) -> None:
        """End a run; nothing uses the memory any more."""
        self._busy.release()
        if self._closing and self._busy.acquire(blocking=False):
            self._release()

    def run_through_framework(self, deadline_ns: int, cancellation: Cancellation | None) -> RunReport:
        """Run it, in the course of a run that has been begun."""
        require_wanted(cancellation)
        lost_run_channel = self._is_direct and self.exchange is None
        report, self.planned, run_channel = self._binding.run(deadline_ns, lost_run_channel, cancellation)
        self._connect(run_channel)
        return report

    def _connect(self, end: BoundRunChannel | None) -> None:
        if end is not None:
            self._is_direct = True
            self.exchange = RunChannelExchange(end)

    def _enter(self) -> None:
        if not self._busy.acquire(blocking=False):
            general_failure("the binding is running already; one run at a time is allowed")
        if self._closing:
            self.leave()
            raise UnloadedError

    def _release(self) -> None:
        """Release it, once; the lock stays taken, so that nothing runs any more."""
        self.disconnect()
        with suppress(ServingError):  # the framework is gone, and released it
            self._binding.close(0)


class RunChannelExchange:
    """Direct runs over one run channel."""

    def __init__(self, end: BoundRunChannel) -> None:
        channel, known = call_channel_from(end.channel, is_numbered=True), {o.name: o.dimensions for o in end.known}
        self._end = RemoteRunChannel(channel, end.execution, end.may_fall_back, end.outputs, known)
        self.may_fall_back = end.may_fall_back
        self._dimensions: Mapping[str, Dimensions] = {}
        self.outputs: tuple[OutputReport, ...] = ()
        """What the last run that succeeded has reported."""

    @property
    def channel(self) -> Channel:
        return self._end.channel

    def fileno(self) -> int:
        return self._end.channel.fileno()

    def start(self, deadline_ns: int) -> int:
        """Begin a run, and return how many bytes were sent: 0 if the channel has ended, or ends since the device has
        sent what no call has asked for."""
        call = self._end.call(deadline_ns)
        try:
            self._end.channel.send(call)
        except ChannelClosedError:
            return 0
        except ProtocolError as error:
            _log.warning("a run channel has ended", reason=str(error))
            return 0
        return len(call)

    def finish(self) -> int:
        """Wait for the answer, and return its bytes.

        Raises HalError if the device refuses, TransportError if it is gone or does not keep to the protocol.
        """
        try:
            answer = self._end.channel.receive()
        except ChannelClosedError as error:
            raise DeadObjectError(f"the run channel: {error}") from error
        except ProtocolError as error:
            raise TransportError(f"the run channel: {error}") from error
        dimensions = self._end.check(answer)
        if dimensions is not self._dimensions:
            self._dimensions = dimensions
            self.outputs = tuple(OutputReport(name, found, True) for name, found in dimensions.items())
        return len(answer)


@dataclass(slots=True, eq=False)
class DirectRun:
    """The InstanceRun of a run that was sent to the device itself."""

    bound: RemoteBoundModel
    exchange: RunChannelExchange
    started_ns: int
    sent_bytes: int
    deadline_ns: int
    cancellation: Cancellation | None
    error: NnhalError | None = None
    """Why it has failed, until it is recovered or dropped."""

    def __post_init__(self) -> None:
        if self.cancellation is not None:
            self.cancellation.on_cancel(self._stop)

    def _stop(self) -> None:
        """Have the device end it. The run channel ends with it."""
        self.exchange.channel.end_sending()

    def finish(self) -> RunReport | None:
        bound = self.bound
        try:
            received = self.exchange.finish()
        except NnhalError as error:
            if self._was_stopped() or not isinstance(error, HalError):
                bound.disconnect()
            self.error = error
            return None
        except BaseException:
            bound.leave()
            raise
        duration_ns = time.perf_counter_ns() - self.started_ns
        report = RunReport(duration_ns, self.sent_bytes + received, outputs=self.exchange.outputs)
        if self._was_stopped():
            bound.disconnect()
        bound.leave()
        return report

    def _was_stopped(self) -> bool:
        """Forget the cancellation of the run, which has ended; return whether it was cancelled."""
        cancellation = self.cancellation
        if cancellation is None:
            return False
        cancellation.forget(self._stop)
        return cancellation.cancelled

    def recover(self) -> RunReport:
        error, self.error = self.error, None
        if error is None:
            raise TypeError("only a run that has failed can be recovered")
        try:
            require_wanted(self.cancellation)
            if isinstance(error, HalError) and not (self.exchange.may_fall_back or _is_too_small(error)):
                raise error
            return self.bound.run_through_framework(self.deadline_ns, self.cancellation)
        finally:
            del error
            self.bound.leave()

    def drop(self) -> None:
        self.error = None
        self.bound.leave()


def _is_too_small(error: HalError) -> bool:
    """Return whether an output needs more memory: how much, a run through the framework says."""
    return error.status == ErrorStatus.OUTPUT_INSUFFICIENT_SIZE
