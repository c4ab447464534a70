"""The device that random steps are asked of: its facts, and what its process holds before and after."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from nnhal.contexts import Closing
from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError, HalError, NnhalError
from nnhal.types import ErrorStatus
from nnhal.v1 import backend_pb2, device_pb2
from nnhal_conformance.device import NO_MODEL, Known, Prepared, Subject, supported
from nnhal_conformance.random_steps.models import all_models
from nnhal_conformance.rule import NotOfferedError, UnservedMethodError
from nnhal_conformance.rules.executions import invalid_requests
from nnhal_conformance.rules.models import invalid_models
from nnhal_conformance.rules.pools import bad_pools
from nnhal_conformance.runner import RETURN_SECONDS, is_back
from nnhal_conformance.session import DeviceSession

_COUNTED = (
    "sessions",
    "descriptors",
    "mappings",
    "mapped_bytes",
    "prepared_models",
    "executions",
    "bursts",
    "buffers",
    "buffer_bytes",
    "launched",
)
"""Counts of GetUsage that must come back to what they were."""


class AskedDevice(Closing):
    """A device whose process runs, and facts of it that stay the same."""

    def __init__(self, serving: Callable[[], Endpoint], seconds: float, forbidden: str = "") -> None:
        """``serving`` tells where it serves, and may start it first, now and each time that it has ended.

        ``seconds`` is how long each answer may take; ``forbidden`` is a message that no answer may have. Raises
        DeadObjectError or TransportError if it cannot be asked, NotOfferedError if it supports no small model.
        """
        self._serving, self.seconds, self.forbidden = serving, seconds, forbidden
        self._open()
        self.models = {
            name: small for name, small in all_models().items() if all(supported(self._session, small.model))
        }
        if not self.models:
            self.close()
            raise NotOfferedError(NO_MODEL)
        self.facts: dict[str, object] = {}
        """Answers that must never change."""
        small = next(iter(self.models.values()))
        with DeviceSession(self.endpoint, seconds) as session:
            held = Prepared(session, small, session.prepare(small.model))
            self.allocates = _allocates(held)
            self.is_synchronous = _is_synchronous(held)
            self.faults = list(invalid_requests(held.work()))
        self.invalid_models = list(invalid_models(small))
        self.bad_pools = list(bad_pools(small.bytes))

    def revive(self) -> None:
        """Find it again if it has ended or does not answer. Raises DeadObjectError or TransportError if it is gone."""
        try:
            self._session.call(self._session.device.GetVersionString, device_pb2.GetVersionStringRequest())
        except NnhalError:
            self._watching.close()
            self._open()

    def _open(self) -> None:
        self.endpoint = self._serving()
        if not is_back(self.endpoint, self.seconds, RETURN_SECONDS):
            raise DeadObjectError(
                f"{self.endpoint.directory} is gone, and did not serve again within {RETURN_SECONDS:g} s"
            )
        self._watching = Subject(self.endpoint, self.seconds, Known())
        self._session = self._watching.session()

    def held(self) -> Counter[str]:
        """Return the objects of its process, by its own counts and by /proc, as far as both show them."""
        found = Counter[str]()
        with suppress(UnservedMethodError):
            usage = self._session.call(self._session.backend.GetUsage, backend_pb2.GetUsageRequest())
            found.update({f"{name} of GetUsage": getattr(usage, name) for name in _COUNTED})
        with suppress(NotOfferedError):
            found.update(self._watching.resources(self._session.link.peer_pid))
        return found

    def require_nothing_beyond(self, before: Counter[str]) -> None:
        """Wait until the process holds no more than before. Raises BrokenRuleError if that does not come in time."""

        def left() -> str:
            return ", ".join(f"{count} more {what}" for what, count in (self.held() - before).items())

        self._watching.until(lambda: not left(), lambda: f"got {left()} after the sessions have ended, expected none")

    @property
    def resident_bytes(self) -> int:
        """Bytes of its process in RAM; 0 if /proc does not show them."""
        try:
            _, resident, *_ = Path(f"/proc/{self._session.link.peer_pid}/statm").read_text().split()
        except OSError:
            return 0
        return int(resident) * os.sysconf("SC_PAGE_SIZE")

    def close(self) -> None:
        self._watching.close()


def _allocates(held: Prepared) -> bool:
    """Return whether the device has buffers: it need not serve Allocate, or may always answer GENERAL_FAILURE."""
    message = device_pb2.AllocateRequest(
        prepared_models=[held.handle], input_roles=[device_pb2.BufferRole(model_index=0, io_index=0, probability=1)]
    )
    try:
        held.session.call(held.session.device.Allocate, message)
    except UnservedMethodError:
        return False
    except HalError as error:
        if error.status != ErrorStatus.GENERAL_FAILURE:
            raise
        return False
    return True


def _is_synchronous(held: Prepared) -> bool:
    """Return whether launches have no fences, so that they would wait for those of others in the call."""
    work = held.work()
    work.fill()
    try:
        return held.launch(work.request).fence is None
    except NotOfferedError:
        return held.bind(work.request).launch().fence is None
