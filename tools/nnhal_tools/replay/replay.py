"""A recording, sent again to another device: all of its sessions, and several copies of them at once if wanted."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError
from nnhal.recording import DeviceRecording, Record, read_device_recording
from nnhal.remote import RemoteDevice
from nnhal_tools.record.story import lacks, place
from nnhal_tools.replay.origin import origin_of
from nnhal_tools.replay.outcomes import Found
from nnhal_tools.replay.report import ReplayReport
from nnhal_tools.replay.session import PLAYED, PlayedSession
from nnhal_tools.up import opened_device

_CLIENT = "nnhal-replay"


class ReplayPace(StrEnum):
    """How fast calls are made."""

    FAST = "fast"
    """Each as soon as those that had ended before it have ended again."""
    RECORDED = "recorded"
    """And not before the time at which it was made in the recording."""


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """What is replayed, and how."""

    recording: Path
    device: str
    """A driver, which gets a process of its own, or the directory of a running device."""
    pace: ReplayPace = ReplayPace.FAST
    copies: int = 1
    """How many times at once, each in sessions of its own."""
    reference: str = "cpu_ref"
    """What tells from which operation on values differ: a driver, or a running device's directory; empty for none."""


def replay_recording(request: ReplayRequest) -> ReplayReport:
    """Make the calls of a recording again, and compare how they end.

    Raises OSError and DeviceRecordingError if the recording cannot be read, StartError if a device cannot be started,
    and TransportError if it does not answer.
    """
    with ExitStack() as stack:
        recording = stack.enter_context(read_device_recording(request.recording))
        device = stack.enter_context(opened_device(request.device, _CLIENT))
        report = ReplayReport(str(request.recording), request.device, notes=lacks(recording))
        records = [record for record in recording.records if record.event.WhichOneof("about") in PLAYED]
        lock = threading.Lock()
        copies = [
            _Copy(recording, records, device.endpoint, Found(report, lock, number), request.pace)
            for number in range(1, request.copies + 1)
        ]
        threads = [work for copy in copies for work in copy.sessions]
        if threads:
            with ThreadPoolExecutor(len(threads)) as pool:
                for ended in [pool.submit(work) for work in threads]:
                    ended.result()
        if request.reference and not device.gone:
            report.origins = _origins(request, recording, device, copies)
    return report


class _Copy:
    """One copy of a recording that is replayed."""

    def __init__(
        self, recording: DeviceRecording, records: Sequence[Record], endpoint: Endpoint, found: Found, pace: ReplayPace
    ) -> None:
        self._recording = recording
        self._records = records
        self._endpoint = endpoint
        self.found = found
        self._pace = pace
        self._turns = Turns(records)
        self._began_ns = time.monotonic_ns() - min((record.started_ns for record in records), default=0)
        of_session: dict[int, list[int]] = {}
        for number, record in enumerate(records):
            of_session.setdefault(record.event.session, []).append(number)
        self.sessions = [lambda numbers=numbers: self._play(numbers) for numbers in of_session.values()]
        """What plays each session, for a thread of its own."""

    def _play(self, numbers: Sequence[int]) -> None:
        """Play the calls of one session."""
        session: PlayedSession | None = None
        try:
            for number in numbers:
                if not self._turns.wait_for(number):
                    return
                record = self._records[number]
                if self._pace == ReplayPace.RECORDED:
                    time.sleep(max(0, self._began_ns + record.started_ns - time.monotonic_ns()) / 1e9)
                if session is None:
                    session = PlayedSession(
                        self._recording, RemoteDevice(self._endpoint, _CLIENT), self.found, self._records, numbers
                    )
                try:
                    session.play(number, record)
                except DeadObjectError:
                    self.found.differ(place(record), "the device has ended, or ended the session, in this call")
                    self._turns.fail()
                    return
                self._turns.end(number)
        except BaseException:
            self._turns.fail()
            raise
        finally:
            if session is not None:
                session.close()


def _origins(
    request: ReplayRequest, recording: DeviceRecording, device: RemoteDevice, copies: Sequence[_Copy]
) -> dict[int, str]:
    """Say for each model whose values differ from which operation on."""
    # A device tells nothing beside itself: the recorded one does.
    name = recording.header.driver if request.device == request.reference else request.reference
    origins: dict[int, str] = {}
    with ExitStack() as stack:

        @cache
        def reference() -> RemoteDevice:
            return stack.enter_context(opened_device(name, _CLIENT))

        for copy in copies:
            for number, (bound, execution) in copy.found.first_differing.items():
                if number not in origins:
                    model = copy.found.models[number]
                    sides = (request.device, device), (name, reference)
                    origins[number] = origin_of(model, bound, execution, recording, *sides)
    return origins


class Turns:
    """The turns of calls of several sessions. Safe to use from several threads.

    Calls that overlap in the recording may overlap again. As each waits for earlier ones only, none waits for ever.
    """

    def __init__(self, records: Sequence[Record]) -> None:
        by_end = sorted(range(len(records)), key=lambda number: records[number].ended_ns)
        ends = [records[number].ended_ns for number in by_end]
        self._places = {number: place for place, number in enumerate(by_end)}
        self._before = [bisect_right(ends, record.started_ns) for record in records]
        self._is_done = bytearray(len(records))
        self._done = 0
        self._has_failed = False
        self._changed = threading.Condition()

    def wait_for(self, number: int) -> bool:
        """Wait until a call may begin; return False if the replay is over."""
        with self._changed:
            # A call of no length is among those that end at its own beginning.
            needed = min(self._before[number], self._places[number])
            self._changed.wait_for(lambda: self._done >= needed or self._has_failed)
            return not self._has_failed

    def end(self, number: int) -> None:
        """Note that a call has ended, or was left out."""
        with self._changed:
            self._is_done[self._places[number]] = 1
            while self._done < len(self._is_done) and self._is_done[self._done]:
                self._done += 1
            self._changed.notify_all()

    def fail(self) -> None:
        """Have all sessions end."""
        with self._changed:
            self._has_failed = True
            self._changed.notify_all()
