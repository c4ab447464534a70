"""A device that cases run on, and that is started again after it has died of one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from nnhal.arrays import Array
from nnhal.errors import DeadObjectError, HalError, NnhalError
from nnhal.remote import RemoteDevice
from nnhal.types import ErrorStatus, Model
from nnhal_tools.cases.execution import Arrays, run_on
from nnhal_tools.up import RenewableDevice

T = TypeVar("T")
_MISSED = (ErrorStatus.MISSED_DEADLINE_TRANSIENT, ErrorStatus.MISSED_DEADLINE_PERSISTENT)


class EndedError(HalError):
    """A device has died of a run, as the message says, and is started again; or the run took too long."""


class AskedDevice:
    """A device that models are run on, with a limit of time."""

    def __init__(
        self,
        name: str,
        device: RenewableDevice | RemoteDevice,
        seconds: float | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        """A RenewableDevice is started again after it has died. ``seconds`` limits each preparation and execution.

        ``tell`` is called before each run what runs.
        """
        self.name = name
        self._device, self.seconds, self._tell = device, seconds, tell
        self.deaths: list[str] = []
        """How the device has died so far, in words."""

    @property
    def remote(self) -> RemoteDevice:
        """The session, which is another one after the device has died."""
        return self._device.remote if isinstance(self._device, RenewableDevice) else self._device

    def run(self, model: Model, samples: Sequence[Arrays], place: str) -> list[list[Array]]:
        """Run a model of supported operations; ``place`` names it.

        Raises HalError if the device fails, EndedError if it is renewable and has died or took too long,
        DeadObjectError if it cannot be started again.
        """
        if self._tell is not None:
            self._tell(f"{place} on {self.name}")
        try:
            return self.surviving(lambda: run_on(self.remote, model, samples, self.seconds), place)
        except HalError as error:
            if self.seconds is None or error.status not in _MISSED:
                raise
            raise EndedError(error.status, f"{self.name} did not finish within {self.seconds:g} s") from error

    def surviving(self, call: Callable[[], T], place: str) -> T:
        """Make calls of the device; if it dies, have it started again and raise EndedError.

        Raises DeadObjectError if it is not renewable, or cannot be started again.
        """
        began = time.monotonic()
        try:
            return call()
        except DeadObjectError as error:
            if not isinstance(self._device, RenewableDevice):
                raise
            words = self._device.end_in_words()
            if self.seconds is not None and time.monotonic() - began >= self.seconds:
                words += f", since it did not finish within {self.seconds:g} s"
            self.deaths.append(words)
            try:
                self._device.renew()
            except NnhalError as reason:
                raise DeadObjectError(f"{words} as it ran {place}, and nothing else can be run: {reason}") from error
            raise EndedError(ErrorStatus.DEVICE_UNAVAILABLE, words) from error
