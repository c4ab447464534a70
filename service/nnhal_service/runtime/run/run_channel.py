"""Direct runs: a client runs a plan's steps on the devices itself; the framework counts them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from nnhal.descriptor import Descriptor
from nnhal.errors import NnhalError
from nnhal.remote import RemoteExecution, RemotePreparedModel
from nnhal.types import RunUsage
from nnhal_service.runtime.run.wiring import Wiring


class RunChannelEnd(NamedTuple):
    """The client's end of a run channel, and the handle of the execution that a call on it must name.

    Answers carry the numbers of their calls.
    """

    channel: Descriptor
    execution: int
    outputs: Sequence[str] = ()
    """The names of outputs whose dimensions answers may report, in their order; empty strings for no output."""
    inputs: Sequence[str] = ()
    """The names of the model's inputs in the execution's order, if calls give lengths; empty strings for no input."""


class DirectPath(Protocol):
    """Steps that a client can run directly."""

    def open(self) -> RunChannelEnd:
        """Open a run channel to them. Raises HalError or TransportError."""
        ...

    def usage(self, close: bool, seconds: float | None) -> RunUsage:
        """Return the counts of the direct runs, and close the channel if asked to. Raises HalError or TransportError.

        After closing, no device that answers is at work on a direct run of several steps.
        """
        ...


class LentEnd:
    """Ends a client's run channel if one of its devices is given up, so that the client does not wait for ever."""

    def __init__(self, parts: Sequence[RemotePreparedModel]) -> None:
        """``parts`` are prepared on the devices that answer on the channel."""
        self._parts = parts
        self._kept: Descriptor | None = None

    def lend(self, end: Descriptor) -> Descriptor:
        """Return the end that the client gets. Another descriptor of it stays here as long as this object."""
        self._kept = end.duplicate()
        for part in self._parts:
            part.calls.end_with_session(self._kept)
        return end


class DirectStep:
    """The only step of a plan, which the device runs for calls on the channel."""

    def __init__(
        self,
        execution: RemoteExecution,
        outputs: Sequence[str],
        lent: LentEnd,
        inputs: Sequence[str] = (),
    ) -> None:
        """``outputs`` are the names of its outputs, and empty strings for those that are not the model's.

        ``inputs`` are those of its inputs, if runs may give their lengths.
        """
        self._inputs = inputs
        self._execution = execution
        self._outputs = outputs
        self._lent = lent

    def open(self) -> RunChannelEnd:
        end = self._lent.lend(self._execution.open_run_channel())
        return RunChannelEnd(end, self._execution.handle, self._outputs, self._inputs)

    def usage(self, close: bool, seconds: float | None) -> RunUsage:
        return self._execution.run_channel_usage(close, seconds)


class DirectChain:
    """Several steps that are wired for the client alone."""

    def __init__(self, wiring: Wiring, lent: LentEnd) -> None:
        self._wiring = wiring
        self._lent = lent

    def open(self) -> RunChannelEnd:
        end = self._lent.lend(self._wiring.take_caller_end())
        return RunChannelEnd(end, self._wiring.execution)

    def usage(self, close: bool, seconds: float | None) -> RunUsage:
        try:
            return self._wiring.usage(seconds)
        finally:
            if close:
                self._wiring.unwire()


class DirectRuns:
    """The run channels of one context, and how much was run over them. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._paths: Sequence[DirectPath] = ()
        self._counted = RunUsage()

    def open(self, paths: Sequence[DirectPath]) -> Sequence[RunChannelEnd]:
        """Open a run channel to each path; they replace earlier ones. Raises HalError or TransportError."""
        try:
            ends = [path.open() for path in paths]
        except NnhalError:
            for path in paths:
                _usage(path, close=True, seconds=None)
            raise
        with self._lock:
            self._paths = tuple(paths)
        return ends

    @property
    def is_open(self) -> bool:
        return bool(self._paths)

    @property
    def count(self) -> int:
        return len(self._paths)

    def take_usage(self, seconds: float) -> RunUsage | None:
        """Return what was run since the last call; None if the device does not answer within ``seconds``."""
        with self._lock:
            return self._take(close=False, seconds=seconds)

    def close(self) -> RunUsage:
        """Close the channels, before their executions are released; return what was run since ``take_usage``."""
        with self._lock:
            usage = self._take(close=True)
            self._paths, self._counted = (), RunUsage()
            return usage or RunUsage()

    def _take(self, close: bool, seconds: float | None = None) -> RunUsage | None:
        usages = [_usage(path, close, seconds) for path in self._paths]
        if None in usages and not close:
            return None
        found = [usage for usage in usages if usage is not None]
        if not found:
            return None if usages else RunUsage()
        before, self._counted = self._counted, RunUsage(*map(sum, zip(*found, strict=True)))
        return RunUsage(*(max(0, now - then) for now, then in zip(self._counted, before, strict=True)))


def _usage(path: DirectPath, close: bool, seconds: float | None) -> RunUsage | None:
    """The counts of a path's runs; None if a device does not answer or is gone, and its count with it."""
    try:
        return path.usage(close, seconds)
    except NnhalError:
        return None
