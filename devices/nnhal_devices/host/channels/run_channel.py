"""The device's end of a run channel: it runs one execution for the process that holds the other end.

The session's client may trust that process with this execution only: whatever it sends, no other execution runs.
"""

from __future__ import annotations

import threading
import time
from functools import partial

from nnhal.link import Channel, ChannelClosedError, ProtocolError
from nnhal.types import RunUsage
from nnhal_devices.host.channels.messages import AnswerEncoder, RunCalls, encode_error, encode_refusal
from nnhal_devices.host.runs.execution import RUN_CHANNEL, Execution, Wanted
from nnhal_devices.host.sessions.client_session import ClientSession, Runner
from nnhal_hosting.descriptors import DescriptorTable
from nnhal_hosting.rpc import answered_error


def run_channel_of(client: ClientSession, handle: int) -> RunChannel:
    """Return the run channel of an execution, the same one each time. Raises INVALID_ARGUMENT."""
    return client.run_channel(handle, lambda execution: RunChannel(execution, handle, client.descriptors))


class RunChannel(Runner):
    """Runs one execution for calls on a channel, until it is closed. Safe to use from several threads."""

    def __init__(self, execution: Execution, handle: int, offers: DescriptorTable) -> None:
        """``offers`` is where the session's client takes the other end."""
        super().__init__(execution, handle)
        self._offers = offers
        self._calls = RunCalls(handle)
        self._encoded = AnswerEncoder()
        self._lock = threading.Lock()
        self._channel: Channel | None = None
        self._runs = self._failed_runs = self._duration_ns = 0

    @property
    def usage(self) -> RunUsage:
        """The runs so far."""
        with self._lock:
            return RunUsage(self._runs, self._failed_runs, self._duration_ns)

    def open(self, client: ClientSession) -> int:
        """Open a channel, close the previous one, and return the id of the other end. Raises HalError."""
        channel, theirs = client.make_channel()
        prepared = self.execution.prepared
        self.end()
        number = self._offers.offer(theirs, owner=self.handle)
        with self._lock:
            previous, self._channel = self._channel, channel
        if previous is not None:  # opened by another thread meanwhile
            previous.shutdown()
        try:
            client.serve(
                channel,
                "run channel",
                client.hooks.answer(
                    partial(self._answer, channel, lambda: not channel.hung_up and self._channel is channel)
                ),
                encode_refusal,
                at_once=lambda: prepared.begins_at_once,
            )
        except BaseException:
            self.end()
            raise
        return number

    def end(self) -> None:
        """Close the channel, and the other end if it was not taken; harmless when repeated."""
        with self._lock:
            channel, self._channel = self._channel, None
        if channel is not None:
            channel.shutdown()
        self._offers.withdraw(self.handle)

    def _answer(self, channel: Channel, is_wanted: Wanted, message: bytes) -> bytes:
        """Answer one call. Raises ProtocolError if the message is malformed, ChannelClosedError after ``end``."""
        started = time.perf_counter_ns()
        try:
            deadline_ns = self._calls.deadline_of(message)
            # A call that was sent before the channel was closed may still be read after it.
            if self._channel is not channel:
                raise ChannelClosedError("the run channel has been closed")
            answer = self._encoded(*self.execution.run(deadline_ns, is_wanted, RUN_CHANNEL, self._calls.lengths))
        except (ChannelClosedError, ProtocolError):
            raise
        except Exception as error:
            answer, failed = encode_error(answered_error(error, "a run on a run channel failed")), True
        else:
            failed = False
        with self._lock:
            if failed:
                self._failed_runs += 1
            else:
                self._runs += 1
                self._duration_ns += time.perf_counter_ns() - started
        return answer
