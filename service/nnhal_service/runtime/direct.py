"""Lending the only step of a plan: a client runs it on the device by itself, and the framework counts it."""

from __future__ import annotations

import threading
from typing import NamedTuple

from nnhal.descriptor import Descriptor
from nnhal.errors import NnhalError
from nnhal.remote import RemoteExecution
from nnhal.types import RunUsage


class LentStep(NamedTuple):
    """The end of a run channel, and what a call on it must name."""

    channel: Descriptor
    execution: int


class Lending:
    """What of one context is lent. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._execution: RemoteExecution | None = None
        self._counted = RunUsage()

    def lend(self, execution: RemoteExecution) -> LentStep:
        """Let somebody else run an execution, in place of who could before. Raises HalError, or TransportError."""
        channel = execution.open_run_channel()
        with self._lock:
            self._execution = execution
        return LentStep(channel, execution.handle)

    @property
    def is_lent(self) -> bool:
        """Whether somebody has it."""
        return self._execution is not None

    def take_usage(self, seconds: float) -> RunUsage | None:
        """Return what has been run since the last call; None if the device does not say so within ``seconds``."""
        with self._lock:
            return self._take(close=False, seconds=seconds)

    def end(self) -> RunUsage:
        """Lend it no more, before the execution is released; what has been run since ``take_usage``."""
        with self._lock:
            usage = self._take(close=True)
            self._execution, self._counted = None, RunUsage()
            return usage or RunUsage()

    def _take(self, close: bool, seconds: float | None = None) -> RunUsage | None:
        if self._execution is None:
            return RunUsage()
        try:
            usage = self._execution.run_channel_usage(close, seconds)
        except NnhalError:  # the device is silent, or gone, and with it what it would say
            return None
        before, self._counted = self._counted, usage
        return RunUsage(*(now - then for now, then in zip(usage, before, strict=True)))
