"""Devices that may be recorded, and what their recordings have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from nnhal.endpoint import Endpoint
from nnhal.recording import DeviceRecording, RecordedCall, read_device_recording
from nnhal.remote.recordings import NO_OMISSIONS, Omissions, RecordingControl
from nnhal.v1 import recording_pb2
from tests.support.processes import device_process


@contextmanager
def recordable_device(directory: Path, *options: str, driver: str = "cpu_ref") -> Iterator[Endpoint]:
    """Run a device that may be recorded until the context ends."""
    with device_process(driver, directory, "--allow-recording", *options) as (_, endpoint):
        yield endpoint


class Recorded(NamedTuple):
    """A recording that was made."""

    path: Path
    figures: recording_pb2.RecordingFigures = recording_pb2.RecordingFigures()

    def read(self) -> DeviceRecording:
        return read_device_recording(self.path)

    @property
    def is_complete(self) -> bool:
        with self.read() as recording:
            return recording.end is not None

    def calls(self, method: str = "") -> list[RecordedCall]:
        with self.read() as recording:
            return [call for call in recording.calls if method in ("", call.event.method)]


@contextmanager
def recording(
    endpoint: Endpoint, path: Path, omissions: Omissions = NO_OMISSIONS, max_bytes: int = 0
) -> Iterator[Recorded]:
    """Record a device until the context ends; what is given has figures then."""
    with RecordingControl(endpoint) as control:
        control.start(path, omissions, max_bytes)
        recorded = Recorded(path, recording_pb2.RecordingFigures())
        yield recorded
        recorded.figures.CopyFrom(control.stop())
