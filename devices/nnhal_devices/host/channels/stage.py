"""A stage of a wired chain: one execution, which runs when the bells before it have rung, and rings those after it.

See chain.proto. The process that makes the calls may be another one than the session's client.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from nnhal.arrays import Array
from nnhal.clock import now_ns
from nnhal.errors import HalError, general_failure
from nnhal.link import Channel, ChannelClosedError, ProtocolError
from nnhal.link.numbers import CallNumbers, number_in
from nnhal.types import NO_DEADLINE, ErrorStatus, RunUsage
from nnhal.v1 import burst_pb2
from nnhal.v1 import chain_pb2 as wire
from nnhal_devices.host.channels.messages import (
    Gathering,
    RunCalls,
    answer_of,
    encode_chain_answer,
    encode_error,
    encode_refusal,
    error_answer,
    failed_step,
    parse_rings,
)
from nnhal_devices.host.runs.execution import CHAIN, Execution
from nnhal_devices.host.sessions.client_session import Runner
from nnhal_hosting.logs import get_logger
from nnhal_hosting.polling import Work
from nnhal_hosting.rpc import answered_error
from nnhal_hosting.sessions import Ownership, say_last_words

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class StageSockets:
    in_bells: tuple[Channel, ...] = ()
    """Ring before it runs."""
    out_bells: tuple[Channel, ...] = ()
    """It rings them when it has run."""
    start_bells: tuple[Channel, ...] = ()
    """It rings them before it runs."""
    end_bells: tuple[Channel, ...] = ()
    """Ring before it answers."""
    watched: tuple[Channel, ...] = ()
    """Duplicates of the bells that it rings, on which only their end arrives."""
    calls: Channel | None = None
    """Brings calls, if it is the entry."""
    answers: Channel | None = None
    """Takes the answers, if it is the exit."""

    @property
    def all(self) -> tuple[Channel, ...]:
        """All of them."""
        ends = tuple(channel for channel in (self.calls, self.answers) if channel is not None)
        return (*self.in_bells, *self.out_bells, *self.start_bells, *self.end_bells, *self.watched, *ends)


class Stage(Runner):
    """One step of a chain. It ends with any of its sockets, and shuts all down. Safe to use from several threads.

    A socket that is only sent on is closed with the last reference to it, since a run may be about to use it.
    """

    kind: ClassVar[str] = "stage"

    def __init__(
        self,
        execution: Execution,
        handle: int,
        step: int,
        name: str,
        sockets: StageSockets,
        cancelled: Array | None = None,
    ) -> None:
        """``handle`` is the execution's; ``cancelled`` is one int64, the number of the last run that was cancelled."""
        super().__init__(execution, handle)
        self._step = step
        self._name = name
        self._sockets = sockets
        self._cancelled = cancelled
        self._calls = RunCalls(handle)
        self._numbers = CallNumbers()
        self._calls_accepted = 0
        self._begin = Gathering(len(sockets.in_bells))
        self._end = Gathering(1 + len(sockets.end_bells))
        self._running = threading.Lock()
        self._lock = threading.Lock()
        self._is_over = False
        self._usage = RunUsage()

    @property
    def usage(self) -> RunUsage:
        """The runs that it has answered."""
        with self._lock:
            return self._usage

    def serve(self, client: Ownership) -> None:
        """Serve its sockets until one of them ends. Raises RESOURCE_EXHAUSTED_TRANSIENT if they cannot be served."""
        sockets = self._sockets
        try:
            for number, bell in enumerate(sockets.in_bells):
                client.serve_exchanges(bell, "bell", partial(self._hear, bell, number), self.end)
            for number, bell in enumerate(sockets.end_bells, 1):
                client.serve_exchanges(bell, "bell", partial(self._hear_end, bell, number), self.end)
            for bell in sockets.watched:
                client.serve_exchanges(bell, "bell", partial(_expect_nothing, bell), self.end)
            if sockets.calls is not None:
                client.serve_exchanges(sockets.calls, "chain", partial(self._take_call, sockets.calls), self.end)
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """Shut all sockets down, which ends the chain, and have a run in flight end soon; harmless when repeated."""
        with self._lock:
            self._is_over = True
            sockets, self._sockets = self._sockets, StageSockets()
        for channel in sockets.all:
            channel.shutdown()

    def wait_until_idle(self, seconds: float) -> bool:
        """Wait for the execution to end, after ``end``; return whether it has, and thus will not run again."""
        if not self._running.acquire(timeout=seconds):
            return False
        self._running.release()
        return True

    def run(self, rings: Sequence[bytes]) -> None:
        """Run the execution, unless a step before has failed, and tell the stages after it."""
        if not self._running.acquire(blocking=False):
            _log.warning("a chain ended: its caller did not wait for the answer", step=self._name)
            self.end()
            return
        try:
            if self._is_over:
                return
            ring = self._run(rings)
        except ProtocolError as error:
            _log.warning("a chain ended: protocol error", reason=str(error))
            self.end()
            return
        finally:
            self._running.release()
        try:
            self._pass_on(ring)
        except (ChannelClosedError, ProtocolError):
            self.end()

    def _take_call(self, calls: Channel) -> Work | None:
        number = b""
        try:
            call, number = self._numbers.split(calls.receive())
            deadline_ns = self._calls.deadline_of(call)
        except ProtocolError as error:
            say_last_words(calls, error, encode_refusal, number)
            raise
        except HalError as error:
            calls.send_at_once(encode_error(error) + number)
            return None
        self._calls_accepted += 1
        begun = wire.Ring(run=self._calls_accepted, started_ns=now_ns(), deadline_ns=deadline_ns)
        if number:
            begun.call_number = number_in(number)
        ring = begun.SerializeToString()
        for bell in self._sockets.start_bells:
            bell.send_at_once(ring)
        return _StageRun(self, (ring,))

    def _hear(self, bell: Channel, number: int) -> Work | None:
        rings = self._begin.add(number, bell.receive())
        return _StageRun(self, rings) if rings else None

    def _hear_end(self, bell: Channel, number: int) -> None:
        self._answer_when_ended(number, bell.receive())

    def _run(self, rings: Sequence[bytes]) -> bytes:
        """Run the execution if it may, and return what to ring. Raises ProtocolError."""
        ring = parse_rings(rings)
        if failed_step(ring) is None:
            answer = self._execute(ring)
            if answer is not None:
                ring.steps.append(burst_pb2.StepAnswer(step=self._step, answer=answer))
        elif len(rings) == 1:
            return rings[0]
        return rings[0] if not ring.steps else ring.SerializeToString()

    def _execute(self, ring: wire.Ring) -> burst_pb2.BurstAnswer | None:
        """Run the execution; return how it ended, None if it succeeded and does not measure."""
        execution = self.execution
        begun_ns = now_ns()
        try:
            self._require_wanted(ring, begun_ns)
            result, staging = execution.run(ring.deadline_ns, self._is_wanted, CHAIN)
            if not result.output_sufficient_size:
                general_failure("an output did not fit its memory")
        except Exception as error:
            return self._failed(answered_error(error, "a run of a stage failed"))
        execution.last_run_ns = now_ns() - begun_ns
        return answer_of(result, staging) if execution.measures else None

    def _failed(self, error: HalError) -> burst_pb2.BurstAnswer:
        return error_answer(error.status, f"{self._name}: {error.message}")

    def _is_wanted(self) -> bool:
        return not self._is_over

    def _require_wanted(self, ring: wire.Ring, now: int) -> None:
        """Raise HalError if the run was cancelled, or if its deadline has passed while the steps before it ran."""
        if self._cancelled is not None and self._cancelled[0] == ring.run:
            general_failure("the run was cancelled")
        if NO_DEADLINE < ring.deadline_ns < now and ring.started_ns <= ring.deadline_ns:
            raise HalError(ErrorStatus.MISSED_DEADLINE_TRANSIENT, "the deadline passed before the step began")

    def _pass_on(self, ring: bytes) -> None:
        """Ring the bells after it, and answer if it is the exit. Raises ChannelClosedError and ProtocolError."""
        sockets = self._sockets
        for bell in sockets.out_bells:
            bell.send_at_once(ring)
        if sockets.answers is not None:
            self._answer_when_ended(0, ring)

    def _answer_when_ended(self, number: int, ring: bytes) -> None:
        """Answer the call when this stage and all whose ends it waits for have rung. Raises as ``_pass_on``."""
        rings = self._end.add(number, ring)
        answers = self._sockets.answers
        if not rings or answers is None:
            return
        ended = parse_rings(rings)
        with self._lock:
            self._usage = self._usage.plus(int(failed_step(ended) is not None), now_ns() - ended.started_ns)
        answers.send_at_once(encode_chain_answer(ended))


class _StageRun:
    """The run of a stage, which the thread that heard the last bell does."""

    __slots__ = ("_rings", "_stage")

    def __init__(self, stage: Stage, rings: Sequence[bytes]) -> None:
        self._stage = stage
        self._rings = rings

    @property
    def is_brief(self) -> bool:
        execution = self._stage.execution
        return execution.is_brief and execution.prepared.begins_at_once

    def run(self) -> None:
        self._stage.run(self._rings)


def _expect_nothing(bell: Channel) -> None:
    """Wait for the end of a bell that is only rung from here."""
    message = bell.receive()
    raise ProtocolError(f"{len(message)} bytes came back on a bell")
