"""Launches of reusable executions over a channel."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from google.protobuf.message import DecodeError

from nnhal.descriptor import Descriptor
from nnhal.errors import DeadObjectError, HalError, TransportError, general_failure
from nnhal.fence import Fence
from nnhal.link import CallChannel, ChannelClosedError, ProtocolError, Traffic
from nnhal.remote.answers import checked_fence, checked_info
from nnhal.remote.calls import Calls
from nnhal.remote.execution import RemoteExecution
from nnhal.types import NO_DEADLINE, ErrorStatus, FencedExecutionInfo
from nnhal.v1 import execution_pb2 as wire


class RemoteLauncher:
    """A session's launch channel: executeFenced with one datagram each way. Safe to use from several threads."""

    def __init__(self, calls: Calls, channel: CallChannel) -> None:
        self._calls = calls
        self._channel = channel
        self._lock = threading.Lock()
        self.is_over = False
        """True if the channel has ended: another launcher has to be opened for further launches."""

    @property
    def traffic(self) -> Traffic:
        """Bytes that went over the channel; other channels may count there too."""
        return self._channel.traffic

    @traffic.setter
    def traffic(self, shared: Traffic) -> None:
        self._channel.traffic = shared

    def launch(
        self,
        execution: RemoteExecution,
        wait_for: Sequence[Fence] = (),
        deadline_ns: int = NO_DEADLINE,
        duration_ns: int = NO_DEADLINE,
        enqueue: bool = False,
    ) -> Fence | None:
        """Launch an execution and return the fence that it will signal, None if it has ended already.

        With ``enqueue`` an asynchronous device signals when the execution is in its queue, and results are visible
        after a ``sync``. Raises HalError if the device refuses, DeadObjectError if it is gone.
        """
        call = wire.LaunchCall(
            launch=wire.Launch(
                execution=execution.handle, deadline_ns=deadline_ns, duration_ns=duration_ns, enqueue=enqueue
            )
        )
        _, descriptors = self._exchange(call, [fence.descriptor for fence in wait_for])
        return self._owed(descriptors)

    def sync(self, wait_for: Sequence[Fence] = ()) -> Fence | None:
        """Make the results of everything enqueued visible. Raises the same errors as ``launch``.

        The fence signals when they are visible; None if they are already.
        """
        _, descriptors = self._exchange(wire.LaunchCall(sync=wire.Sync()), [fence.descriptor for fence in wait_for])
        return self._owed(descriptors)

    def info(self, execution: RemoteExecution) -> FencedExecutionInfo:
        """Return how the last launch of an execution ended. Raises GENERAL_FAILURE until it has ended."""
        answer, _ = self._exchange(wire.LaunchCall(info=wire.LaunchInfo(execution=execution.handle)))
        return checked_info(answer.info, self._calls.place)

    def close(self) -> None:
        """Close the channel. Launched executions continue."""
        self._channel.close()

    def _owed(self, descriptors: Sequence[Descriptor]) -> Fence | None:
        if not descriptors:
            return None
        fence = checked_fence(descriptors[0], self._calls.place)
        self._calls.end_with_session(fence.descriptor)
        return fence

    def _exchange(
        self, call: wire.LaunchCall, descriptors: Sequence[Descriptor] = ()
    ) -> tuple[wire.LaunchAnswer, list[Descriptor]]:
        place = self._calls.place
        try:
            with self._lock:
                self._channel.send(call.SerializeToString(), descriptors)
                message, received = self._channel.receive_with_descriptors()
            answer = wire.LaunchAnswer.FromString(message)
        except (ChannelClosedError, ProtocolError, DecodeError) as error:
            raise self._ended(error) from error
        kind, asked = answer.WhichOneof("answer"), call.WhichOneof("call")
        expected = "info" if asked == "info" else "launch"
        if kind == "refused":
            status = ErrorStatus(answer.refused.status) or ErrorStatus.GENERAL_FAILURE
            raise HalError(status, answer.refused.message)
        if kind != expected:
            general_failure(f"{place} answered a call of kind {asked} with {kind or 'nothing'}")
        return answer, received

    def _ended(self, error: Exception) -> TransportError:
        self.is_over = True
        kind = DeadObjectError if isinstance(error, ChannelClosedError) else TransportError
        return kind(f"{self._calls.place}: {error}")
