"""The device's ends of channels: bursts, run channels, launches, and the stages of wired chains."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator, Sequence
from threading import Event
from weakref import WeakKeyDictionary

from nnhal.v1 import burst_pb2, chain_pb2, execution_pb2, request_pb2, types_pb2
from nnhal.v1.fenced_execution_callback_pb2 import GetExecutionInfoResponse
from tests.support.foreign.arithmetic import Execution, Prepared, RunCounts
from tests.support.foreign.faults import Faults
from tests.support.foreign.link import MAX_BYTES, Session, hang_up, in_thread

_MAX_FENCES = 16
_MOMENT_SECONDS = 0.02
_UNKNOWN = request_pb2.Timing(time_on_device_ns=-1, time_in_driver_ns=-1)
_GOOD = request_pb2.ExecutionResult(output_sufficient_size=True, timing=_UNKNOWN)


class Runs:
    """Runs executions and answers calls, as wrongly as the device is told to."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self._before: WeakKeyDictionary[socket.socket, bytes] = WeakKeyDictionary()

    def begin(self, channel: socket.socket) -> None:
        """Begin with a call: a fault may strike before it is executed."""
        if channel in self._before and self.faults.strikes("repeats the answer before"):
            channel.send(self._before[channel])

    def result(self, execution: Execution) -> request_pb2.ExecutionResult | None:
        """Run an execution unless a fault strikes; return what the answer is to say of it, None for nothing."""
        if self.faults.strikes("answers nothing"):
            return None
        if self.faults.strikes("answers insufficient"):
            return request_pb2.ExecutionResult(timing=_UNKNOWN)
        if self.faults.strikes("does not fit"):
            shapes = [request_pb2.OutputShape(dimensions=each) for each in execution.dimensions]
            return request_pb2.ExecutionResult(output_shapes=shapes, timing=_UNKNOWN)
        if self.faults.strikes("dawdles"):
            Event().wait(_MOMENT_SECONDS)
        if not self.faults.strikes("writes nothing"):
            execution.run()
        return _GOOD

    def answer(self, channel: socket.socket, answer: bytes, descriptors: Sequence[int] = ()) -> None:
        """Send an answer, unless a fault strikes."""
        with self.faults.answering:
            self._before[channel] = answer
            if self.faults.strikes("closes the channel"):
                hang_up(channel)
            elif not self.faults.strikes("never answers"):
                for _ in range(1 + self.faults.strikes("answers twice")):
                    socket.send_fds(channel, [answer], descriptors)


def serve_runs(
    channel: socket.socket, session: Session, runs: Runs, prepared: Prepared | None, counts: RunCounts
) -> None:
    """Answer the calls of a burst of ``prepared``, or of a run channel, until the channel ends."""
    for message, _ in _received(channel):
        runs.begin(channel)
        call, started = burst_pb2.BurstCall.FromString(message), time.monotonic_ns()
        kind = call.WhichOneof("call")
        execution = None
        if kind == "run":
            execution = session.objects.get(call.run.execution)
        elif kind in ("execute", "execute_with_config") and prepared is not None:
            execution = Execution(prepared, getattr(call, kind).request, session)
        if isinstance(execution, Execution):
            answer = burst_pb2.BurstAnswer(result=runs.result(execution))
        elif kind == "release_memory_resource":
            answer = burst_pb2.BurstAnswer(result=_GOOD)  # nothing is cached
        else:
            answer = burst_pb2.BurstAnswer(status=types_pb2.ERROR_STATUS_INVALID_ARGUMENT, message=f"got {call}")
        counts.count(answer.status, time.monotonic_ns() - started)
        _number(call, answer)
        runs.answer(channel, answer.SerializeToString())


def serve_launches(channel: socket.socket, session: Session, runs: Runs) -> None:
    """Answer the calls of a launch channel until it ends."""
    infos: dict[int, GetExecutionInfoResponse] = {}
    for message, fences in _received(channel):
        call, owed = execution_pb2.LaunchCall.FromString(message), []
        match call.WhichOneof("call"):
            case "info" if call.info.execution in infos:
                answer = execution_pb2.LaunchAnswer(info=infos[call.info.execution])
            case "info":
                failed = types_pb2.ERROR_STATUS_GENERAL_FAILURE
                answer = execution_pb2.LaunchAnswer(
                    refused=execution_pb2.LaunchRefused(status=failed, message="it has not ended")
                )
            case "launch":
                ours, theirs = socket.socketpair()
                infos.pop(call.launch.execution, None)
                if runs.faults.strikes("fails without a fence"):
                    infos[call.launch.execution] = _info(types_pb2.ERROR_STATUS_GENERAL_FAILURE, "it failed")
                    theirs.close()
                else:
                    in_thread(_launched, session, runs, call.launch.execution, fences, ours, infos)
                    owed = [] if runs.faults.strikes("gives no fence") else [theirs]
                answer = execution_pb2.LaunchAnswer(launch=execution_pb2.LaunchDone())
            case _:  # a sync: all results are visible
                answer = execution_pb2.LaunchAnswer(launch=execution_pb2.LaunchDone())
        _number(call, answer)
        runs.answer(channel, answer.SerializeToString(), [each.fileno() for each in owed])
        for each in owed:
            each.close()


def _launched(
    session: Session,
    runs: Runs,
    handle: int,
    fences: Sequence[int],
    owed: socket.socket,
    infos: dict[int, GetExecutionInfoResponse],
) -> None:
    """Run an execution when fences have signalled, note how it ended, and signal its own."""
    waited = [socket.socket(fileno=fence) for fence in fences]
    with owed:
        if runs.faults.strikes("signals early"):
            owed.send(b"\x01")
        if runs.faults.strikes("dawdles"):
            Event().wait(_MOMENT_SECONDS)
        if all(fence.recv(1, socket.MSG_PEEK) for fence in waited):
            runs.result(session.objects[handle])
            infos[handle] = _info(types_pb2.ERROR_STATUS_NONE)
            if runs.faults.strikes("never signals"):
                session.keep(owed.dup())
            else:
                with contextlib.suppress(OSError):  # nobody waits any more
                    owed.send(b"\x01")
        else:
            infos[handle] = _info(types_pb2.ERROR_STATUS_GENERAL_FAILURE, "a fence has failed")
    for fence in waited:
        fence.close()


def _info(status: types_pb2.ErrorStatus.ValueType, message: str = "") -> GetExecutionInfoResponse:
    return GetExecutionInfoResponse(
        error_status=status, message=message, timing_launched=_UNKNOWN, timing_fenced=_UNKNOWN
    )


class Stage:
    """A stage of a wired chain."""

    def __init__(self, session: Session, request: chain_pb2.WireStepRequest, runs: Runs) -> None:
        self._execution: Execution = session.objects[request.execution]
        self._step, self._name, self._runs = request.step, request.name, runs
        self._in = session.claim(request.in_bell_descriptor_ids)
        self._out = session.claim(request.out_bell_descriptor_ids)
        self._start = session.claim(request.start_bell_descriptor_ids)
        self._ends = session.claim(request.end_bell_descriptor_ids)
        self._singles = session.claim([n for n in (request.calls_descriptor_id, request.answers_descriptor_id) if n])
        self._calls = self._singles[0] if request.calls_descriptor_id else None
        self._answers = self._singles[-1] if request.answers_descriptor_id else None
        self._accepted = 0
        self.counts = RunCounts()
        in_thread(self._serve)

    def end(self) -> None:
        """Shut all sockets down, which ends the chain."""
        for each in (*self._in, *self._out, *self._start, *self._ends, *self._singles):
            hang_up(each)

    def _serve(self) -> None:
        try:
            while (ring := self._begun()) is not None:
                result: request_pb2.ExecutionResult | None = _GOOD
                if not any(step.answer.status for step in ring.steps):
                    result = self._run()
                for bell in self._out:
                    for _ in range(1 + self._runs.faults.strikes("rings twice")):
                        bell.send(ring.SerializeToString())
                if self._answers is not None:
                    self._answer(self._answers, ring, result)
        except OSError:
            pass
        finally:
            self.end()

    def _begun(self) -> chain_pb2.Ring | None:
        """Wait for the call, or for all bells before; return None at the end of the chain."""
        if self._calls is None:
            return _merged(self._in)
        message = self._calls.recv(MAX_BYTES)
        if not message:
            return None
        call = burst_pb2.BurstCall.FromString(message)
        self._accepted += 1
        deadline_ns = call.run.deadline_ns if call.run.HasField("deadline_ns") else -1
        started_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        ring = chain_pb2.Ring(run=self._accepted, started_ns=started_ns, deadline_ns=deadline_ns)
        if call.HasField("number"):
            ring.call_number = call.number
        for bell in self._start:
            bell.send(ring.SerializeToString())
        return ring

    def _run(self) -> request_pb2.ExecutionResult | None:
        """Run the execution. Faults of results strike at the exit only."""
        if self._answers is not None:
            self._runs.begin(self._answers)
            return self._runs.result(self._execution)
        self._execution.run()
        return _GOOD

    def _answer(self, channel: socket.socket, ring: chain_pb2.Ring, result: request_pb2.ExecutionResult | None) -> None:
        """Answer the call when all stages that no other one waits for have rung."""
        ended = _merged(self._ends, ring)
        if ended is None:
            raise ConnectionError
        failed = next((step.answer for step in ended.steps if step.answer.status), None)
        if failed is None:
            answer = burst_pb2.BurstAnswer(result=result, steps=ended.steps)
        else:
            answer = burst_pb2.BurstAnswer(status=failed.status, message=failed.message, steps=ended.steps)
        self.counts.count(answer.status, time.clock_gettime_ns(time.CLOCK_BOOTTIME) - ended.started_ns)
        if ended.HasField("call_number"):
            answer.number = ended.call_number
        self._runs.answer(channel, answer.SerializeToString())


def _merged(bells: Sequence[socket.socket], own: chain_pb2.Ring | None = None) -> chain_pb2.Ring | None:
    """Wait for a ring of each bell, and return what they say together; None if one has ended."""
    rings = [] if own is None else [own]
    for bell in bells:
        message = bell.recv(MAX_BYTES)
        if not message:
            return None
        rings.append(chain_pb2.Ring.FromString(message))
    steps = {step.step: step for ring in rings for step in ring.steps}
    del rings[0].steps[:]
    rings[0].steps.extend(steps[number] for number in sorted(steps))
    return rings[0]


def _number(
    call: burst_pb2.BurstCall | execution_pb2.LaunchCall, answer: burst_pb2.BurstAnswer | execution_pb2.LaunchAnswer
) -> None:
    if call.HasField("number"):
        answer.number = call.number


def _received(channel: socket.socket) -> Iterator[tuple[bytes, list[int]]]:
    """Yield the datagrams of a channel and their descriptors, until it ends."""
    while True:
        try:
            message, descriptors, _, _ = socket.recv_fds(channel, MAX_BYTES, _MAX_FENCES)
        except OSError:
            return
        if not message:
            return
        yield message, descriptors
