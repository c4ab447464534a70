"""The recorder of a device: at most one recording at a time."""

from __future__ import annotations

import os
import stat
import threading
from typing import Any, TypeVar

from nnhal.contexts import Closing
from nnhal.descriptor import Descriptor
from nnhal.errors import HalError, general_failure, invalid_argument
from nnhal.exhaustion import host_failure
from nnhal.types import ErrorStatus
from nnhal.v1 import recording_pb2 as wire
from nnhal_devices.driver import Driver
from nnhal_devices.host.recording.active import ActiveRecording
from nnhal_devices.host.recording.calls import RecordedCalls
from nnhal_devices.host.recording.executions import RecordingPreparedModel
from nnhal_devices.host.recording.notes import NoteLimits
from nnhal_devices.host.sessions.client_session import ClientSession, ClientSessions
from nnhal_devices.host.sessions.wrapped_servicer import intercepted
from nnhal_hosting.logs import get_logger

_log = get_logger(__name__)
S = TypeVar("S")


class DeviceRecorder(Closing):
    """Starts and ends recordings. Safe to use from several threads."""

    def __init__(self, driver: Driver, limits: NoteLimits) -> None:
        self.active: ActiveRecording | None = None
        """The recording that is being made."""
        self._driver = driver
        self._limits = limits
        self._lock = threading.Lock()
        self._owner: ClientSession | None = None

    def start(
        self, file: Descriptor, omissions: wire.RecordingOmissions, max_bytes: int, client: ClientSession
    ) -> None:
        """Begin a recording for a client; it ends with its session.

        Raises INVALID_ARGUMENT if the file is not a regular one, GENERAL_FAILURE if it cannot be written, and
        RESOURCE_EXHAUSTED_TRANSIENT while another recording is made.
        """
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            invalid_argument("a recording into what is not a file, expected a regular file")
        if max_bytes < 0:
            invalid_argument(f"a recording of at most {max_bytes} bytes, expected 0 or more")
        with self._lock:
            if self._owner is not None:
                raise HalError(
                    ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT,
                    f"{self._owner.session.title} records already; one recording at a time is allowed",
                )
            try:
                active = ActiveRecording(file, self._driver, omissions, max_bytes, self._limits)
            except OSError as error:
                raise host_failure("the recording cannot be written", error) from error
            self._owner, self.active = client, active
        _log.warning("a recording began", client=client.session.title)
        client.session.on_close(lambda: self._end_of(client))

    def around(self, service: str, servicer: S, clients: ClientSessions) -> S:
        """Return a servicer whose calls are recorded. ``service`` is its name in recordings."""
        return intercepted(service, servicer, RecordedCalls(lambda: self.active, clients))

    def prepared_model(self, *arguments: Any) -> RecordingPreparedModel:
        """Return a prepared model whose executions are recorded, in whatever way they are asked for."""
        return RecordingPreparedModel(lambda: self.active, *arguments)

    def figures(self, client: ClientSession) -> wire.RecordingFigures:
        """Return the figures of a client's recording. Raises GENERAL_FAILURE if it has none."""
        return self._active_of(client).figures

    def stop(self, client: ClientSession) -> wire.RecordingFigures:
        """End a client's recording, and return its figures when the file is complete. Raises GENERAL_FAILURE."""
        active = self._active_of(client)
        self._end_of(client)
        active.wait()
        return active.figures

    def close(self) -> None:
        """End the recording, if there is one."""
        with self._lock:
            owner, active = self._owner, self.active
        if owner is not None and active is not None:
            self._end_of(owner)
            active.wait()

    def _active_of(self, client: ClientSession) -> ActiveRecording:
        with self._lock:
            if self._owner is not client or self.active is None:
                general_failure("this session records nothing")
            return self.active

    def _end_of(self, client: ClientSession) -> None:
        """End a client's recording, if it has one, without waiting for it: the end of a session must not take long."""
        with self._lock:
            if self._owner is not client:
                return
            active, self.active, self._owner = self.active, None, None
        if active is not None:
            active.end()
            _log.warning("a recording ended", client=client.session.title)
