"""Events, for which an application waits."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress

from nnhal.fence import Fence, FenceError, FenceState, create_fence
from nnhal_client.ndk.result import NeuralNetworksError, ResultCode


class Event:
    """ANeuralNetworksEvent: the end of an execution, or any sync fence."""

    def __init__(self, fence: Fence, conclude: Callable[[], None]) -> None:
        """``conclude`` raises NeuralNetworksError if what the fence stands for has failed."""
        self._fence = fence
        self._conclude = conclude

    @classmethod
    def from_sync_fence(cls, fence: Fence) -> Event:
        """The event of a fence (ANeuralNetworksEvent_createFromSyncFenceFd)."""

        def conclude() -> None:
            if fence.state is FenceState.ERROR:
                raise NeuralNetworksError(ResultCode.OP_FAILED, "the fence is in error")

        return cls(fence, conclude)

    @classmethod
    def of_future(cls, future: Future[None]) -> Event:
        """The end of a thread's work; ``wait`` raises its error. Raises OSError if no fence can be made."""
        signal, fence = create_fence()
        future.add_done_callback(lambda done: signal.send() if done.exception() is None else signal.fail())
        return cls(fence, future.result)

    @property
    def sync_fence(self) -> Fence:
        """The fence that signals when it happens (ANeuralNetworksEvent_getSyncFenceFd)."""
        return self._fence

    def wait(self) -> None:
        """Wait until it has happened. Raises NeuralNetworksError if what it stands for has failed."""
        with suppress(FenceError):  # ``conclude`` says better what was wrong
            self._fence.wait()
        self._conclude()


def wait(event: Event | None) -> None:
    """ANeuralNetworksEvent_wait. Raises UNEXPECTED_NULL without an event, else as ``Event.wait``."""
    if event is None:
        raise NeuralNetworksError(ResultCode.UNEXPECTED_NULL, "there is no event to wait for")
    event.wait()
