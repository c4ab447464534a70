"""Events: what an application waits for."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress

from nnhal.fence import Fence, FenceError, FenceState, create_fence
from nnhal_client.ndk.result import NeuralNetworksError, ResultCode


class Event:
    """ANeuralNetworksEvent: the end of an execution, or a sync fence of somebody else's."""

    def __init__(self, fence: Fence, conclude: Callable[[], None]) -> None:
        """``conclude`` raises NeuralNetworksError where what the fence stands for failed."""
        self._fence = fence
        self._conclude = conclude

    @classmethod
    def from_sync_fence(cls, fence: Fence) -> Event:
        """An event that is a fence (ANeuralNetworksEvent_createFromSyncFenceFd)."""

        def conclude() -> None:
            if fence.state is FenceState.ERROR:
                raise NeuralNetworksError(ResultCode.OP_FAILED, "the fence is in error")

        return cls(fence, conclude)

    @classmethod
    def of_future(cls, future: Future[None]) -> Event:
        """The end of what a thread does; its error is a NeuralNetworksError."""
        signal, fence = create_fence()
        future.add_done_callback(lambda done: signal.send() if done.exception() is None else signal.fail())
        return cls(fence, future.result)

    @property
    def sync_fence(self) -> Fence:
        """The fence that says when it has happened (ANeuralNetworksEvent_getSyncFenceFd)."""
        return self._fence

    def wait(self) -> None:
        """Wait until it has happened. Raises NeuralNetworksError where what it stands for failed."""
        with suppress(FenceError):  # what was wrong is better said by whom it happened to
            self._fence.wait()
        self._conclude()


def wait(event: Event | None) -> None:
    """ANeuralNetworksEvent_wait. Raises UNEXPECTED_NULL without an event, else as ``Event.wait``."""
    if event is None:
        raise NeuralNetworksError(ResultCode.UNEXPECTED_NULL, "there is no event to wait for")
    event.wait()
