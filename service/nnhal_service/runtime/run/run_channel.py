"""Direct runs: a client runs a plan's only step on the device itself; the framework counts them."""

from __future__ import annotations

import threading
from typing import NamedTuple

from nnhal.descriptor import Descriptor
from nnhal.errors import NnhalError
from nnhal.remote import RemoteExecution
from nnhal.types import RunUsage


class RunChannelEnd(NamedTuple):
    """The client's end of a run channel, and the handle of the execution that a call on it must name."""

    channel: Descriptor
    execution: int


class DirectRuns:
    """The run channel of one context, and how much was run over it. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._execution: RemoteExecution | None = None
        self._counted = RunUsage()

    def open(self, execution: RemoteExecution) -> RunChannelEnd:
        """Open a run channel to an execution; it replaces an earlier one. Raises HalError or TransportError."""
        channel = execution.open_run_channel()
        with self._lock:
            self._execution = execution
        return RunChannelEnd(channel, execution.handle)

    @property
    def is_open(self) -> bool:
        """Whether a run channel is open."""
        return self._execution is not None

    def take_usage(self, seconds: float) -> RunUsage | None:
        """What was run since the last call; None if the device does not answer within ``seconds``."""
        with self._lock:
            return self._take(close=False, seconds=seconds)

    def close(self) -> RunUsage:
        """Close the channel, before its execution is released; return what was run since ``take_usage``."""
        with self._lock:
            usage = self._take(close=True)
            self._execution, self._counted = None, RunUsage()
            return usage or RunUsage()

    def _take(self, close: bool, seconds: float | None = None) -> RunUsage | None:
        if self._execution is None:
            return RunUsage()
        try:
            usage = self._execution.run_channel_usage(close, seconds)
        except NnhalError:  # the device does not answer or is gone, and its count with it
            return None
        before, self._counted = self._counted, usage
        return RunUsage(*(now - then for now, then in zip(usage, before, strict=True)))
