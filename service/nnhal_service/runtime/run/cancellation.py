"""Cancelling a run: no other step begins, and devices end those that have begun."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from nnhal.codec.lengths import Lengths
from nnhal.errors import HalError, MissingMethodError, NnhalError, general_failure
from nnhal.link import Traffic
from nnhal.remote import RemoteBurst, RemoteExecution
from nnhal.remote.burst import BurstOutcome
from nnhal.remote.prepared_model import RemotePreparedModel
from nnhal.remote.watch import Cancellable
from nnhal.types import NO_DEADLINE, ExecutionConfig, Request
from nnhal_hosting.logs import get_logger

_log = get_logger(__name__)


class Cancellation:
    """Cancellation of a request or a run, which cannot be undone. Safe to use from several threads."""

    def __init__(self) -> None:
        self.cancelled = False
        """True once it has been cancelled, which only ``cancel`` does."""
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []

    def cancel(self) -> None:
        """Cancel it, and call the callbacks in this thread; harmless when repeated."""
        with self._lock:
            self.cancelled = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Call back, in any thread, when it is cancelled; at once if it already is."""
        with self._lock:
            if not self.cancelled:
                self._callbacks.append(callback)
                return
        callback()

    def forget(self, callback: Callable[[], None]) -> None:
        """Undo ``on_cancel``; harmless if the callback has been called."""
        with self._lock:
            if callback in self._callbacks:
                self._callbacks.remove(callback)


class RunCancellation(Cancellation):
    """The cancellation of runs that follow one another. Runs are seldom cancelled, so it has one callback and no lock.

    A callback may be called twice, and after ``forget`` if that races with ``cancel``; it must not mind.
    """

    def __init__(self) -> None:
        super().__init__()
        self._callback: Callable[[], None] | None = None

    def cancel(self) -> None:
        self.cancelled = True
        callback = self._callback
        if callback is not None:
            callback()

    def on_cancel(self, callback: Callable[[], None]) -> None:
        self._callback = callback
        if self.cancelled:
            callback()

    def forget(self, callback: Callable[[], None]) -> None:
        self._callback = None


class CancelledRunError(NnhalError):
    """A run was cancelled: the steps that had begun have ended, early if possible. No device has failed."""

    def __init__(self) -> None:
        super().__init__("the run has been cancelled")


def require_wanted(cancellation: Cancellation | None) -> None:
    """Raise CancelledRunError if the run has been cancelled; call it before a step begins."""
    if cancellation is not None and cancellation.cancelled:
        raise CancelledRunError


class StoppableBurst:
    """A burst of a prepared model. A run that is cancelled ends as soon as its device can end it.

    To end a run is to end the channel of its burst, so that the next run needs another burst. So it does after a device
    has ended the channel. If the device has no bursts, or does not number its answers, runs are calls over gRPC.
    """

    def __init__(self, prepared: RemotePreparedModel, traffic: Traffic) -> None:
        """Its bytes count in ``traffic``. Raises TransportError if the device is gone."""
        self._prepared = prepared
        self._traffic = traffic
        self.burst = self._configured()
        """None if runs are calls over gRPC; after a run has been stopped, one that is over, in place of which the next
        run has another.
        """
        self._deadline_ns = NO_DEADLINE
        self._runs = 0
        self._call: Cancellable | None = None
        """The call over gRPC of the run under way, if there is no burst."""
        self._watched: tuple[Cancellation, Callable[[], None]] | None = None

    @property
    def takes_lengths(self) -> bool:
        return self.burst is not None and self._prepared.calls.has_lengths_by_run

    def start(
        self, execution: RemoteExecution, deadline_ns: int, cancellation: Cancellation | None, lengths: Lengths = ()
    ) -> None:
        """Begin a run. Raises as RemoteBurst does, and then there is nothing to finish."""
        self._watch(cancellation)
        try:
            if self.burst is not None:
                self.burst.start(execution, deadline_ns, lengths)
            elif lengths:
                general_failure("a device has no burst, and calls over gRPC give no lengths of inputs")
            self._deadline_ns = deadline_ns
        except BaseException:
            self._watch_no_more()
            raise

    def fileno(self) -> int:
        """The descriptor that can be read when the run that was started has ended."""
        if self.burst is None:
            raise TypeError("there is no burst, so that nothing can be waited for")
        return self.burst.fileno()

    def finish(self, execution: RemoteExecution) -> BurstOutcome:
        """Wait for the end of a run that was started. Raises as RemoteBurst does, and CancelledRunError."""
        burst = self.burst
        try:
            if burst is not None:
                return burst.finish(execution)
            return BurstOutcome(execution.execute(self._deadline_ns, self._note_call))
        except NnhalError as error:
            self._require_wanted(error)
            raise
        finally:
            self._watch_no_more()

    def run(self, execution: RemoteExecution, deadline_ns: int, cancellation: Cancellation | None) -> BurstOutcome:
        """Run a reusable execution. Raises as ``finish`` does."""
        self.start(execution, deadline_ns, cancellation)
        return self.finish(execution)

    def execute(
        self, request: Request, config: ExecutionConfig, deadline_ns: int, cancellation: Cancellation | None
    ) -> BurstOutcome:
        """Execute a request. Raises as ``finish`` does."""
        self._watch(cancellation)
        try:
            if self.burst is not None:
                return self.burst.execute(request, config=config, deadline_ns=deadline_ns)
            return BurstOutcome(self._prepared.execute(request, config, deadline_ns, self._note_call))
        except NnhalError as error:
            self._require_wanted(error)
            raise
        finally:
            self._watch_no_more()

    def stop(self) -> None:
        """Have the device end the run under way, if there is one, in any thread."""
        self._stop(self._runs, self.burst)

    def pause(self) -> None:
        """Release the burst until the next run, if there is one: its channel takes a descriptor at either end."""
        if self.burst is not None:
            self.burst.stop()
            self.burst.close()

    def close(self) -> None:
        if self.burst is not None:
            self.burst.close()

    def _watch(self, cancellation: Cancellation | None) -> None:
        if self.burst is not None and self.burst.is_over:
            self.burst.close()
            self.burst = self._configured()
        self._runs += 1
        if cancellation is not None:
            stop = partial(self._stop, self._runs, self.burst)
            self._watched = cancellation, stop
            cancellation.on_cancel(stop)

    def _note_call(self, call: Cancellable) -> None:
        """Note the call of the run under way, which may have been cancelled before there was one."""
        self._call = call
        if self._watched is not None and self._watched[0].cancelled:
            call.cancel()

    def _stop(self, run: int, burst: RemoteBurst | None) -> None:
        if run != self._runs:  # a cancellation may come late
            return
        if burst is not None:
            burst.stop()
        elif self._call is not None:
            self._call.cancel()

    def _require_wanted(self, error: NnhalError) -> None:
        """Raise CancelledRunError if the run that has failed was cancelled."""
        if self._watched is not None and self._watched[0].cancelled:
            raise CancelledRunError from error

    def _watch_no_more(self) -> None:
        """Forget the run, which has ended, and its cancellation."""
        watched, self._watched, self._call = self._watched, None, None
        if watched is not None:
            cancellation, stop = watched
            cancellation.forget(stop)

    def _configured(self) -> RemoteBurst | None:
        """Configure a burst; returns None if the device refuses, answers with what is none, or has no numbers."""
        if not self._prepared.calls.numbers_answers:
            return None
        try:
            burst = self._prepared.configure_execution_burst()
        except (HalError, MissingMethodError) as refusal:
            _log.warning("a device has no burst for a model: it is run by calls over gRPC", reason=str(refusal))
            return None
        burst.traffic = self._traffic
        return burst
