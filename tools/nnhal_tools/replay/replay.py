"""A recording, sent again to another device: all of its sessions."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError, NnhalError
from nnhal.recording import DeviceRecording, RecordedCall, read_device_recording
from nnhal.remote import RemoteDevice
from nnhal.types import Model
from nnhal.v1 import recording_pb2 as wire
from nnhal_frontends.imported import ImportedModel
from nnhal_tools.conformance.arguments import bytes_of
from nnhal_tools.diff.comparison import compare
from nnhal_tools.diff.device_side import AskedDevice, DeviceSide
from nnhal_tools.diff.subject import Subject
from nnhal_tools.distance.limits import Limits
from nnhal_tools.hal_runner import run_on
from nnhal_tools.record.report import lacks, place
from nnhal_tools.replay.outcomes import ReplayReport, difference_of
from nnhal_tools.replay.recorded_values import UnreadableError, arrays_of, with_inputs_of
from nnhal_tools.replay.session import PLAYED, PlayedSession
from nnhal_tools.up import opened_device

_CLIENT = "nnhal-replay"


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """Recording that is replayed, and options."""

    recording: Path
    device: str
    """A driver, which gets a process of its own, or the directory of a running device."""
    reference: str = "cpu_ref"
    """What tells from which operation on values differ: a driver, or a running device's directory; empty for none."""


def replay_recording(request: ReplayRequest) -> ReplayReport:
    """Make the calls of a recording again, and compare how they end.

    Raises OSError and DeviceRecordingError if the recording cannot be read, StartError if a device cannot be started,
    and TransportError if it does not answer.
    """
    with read_device_recording(request.recording) as recording:
        report = ReplayReport(str(request.recording), request.device, notes=lacks(recording))
        calls = [call for call in recording.calls if call.event.WhichOneof("about") in PLAYED]
        with opened_device(request.device, _CLIENT) as device:
            sessions = _Player(recording, calls, device.endpoint, report).sessions
            if sessions:
                with ThreadPoolExecutor(len(sessions)) as pool:
                    for ended in [pool.submit(work) for work in sessions]:
                        ended.result()
            is_gone = device.gone
        if request.reference and not is_gone:
            report.origins = _origins(request, recording, report)
    return report


class _Player:
    """Plays the sessions of a recording."""

    def __init__(
        self,
        recording: DeviceRecording,
        calls: Sequence[RecordedCall],
        endpoint: Endpoint,
        report: ReplayReport,
    ) -> None:
        self._recording = recording
        self._calls = calls
        self._endpoint = endpoint
        self._report = report
        self._turns = Turns(calls)
        of_session: dict[int, list[int]] = {}
        for number, call in enumerate(calls):
            of_session.setdefault(call.event.session, []).append(number)
        self.sessions = [lambda numbers=numbers: self._play(numbers) for numbers in of_session.values()]
        """What plays each session, for a thread of its own."""

    def _play(self, numbers: Sequence[int]) -> None:
        """Play the calls of one session."""
        session: PlayedSession | None = None
        try:
            for number in numbers:
                if not self._turns.wait_for(number):
                    return
                call = self._calls[number]
                if session is None:
                    session = PlayedSession(
                        self._recording, RemoteDevice(self._endpoint, _CLIENT), self._report, self._calls, numbers
                    )
                try:
                    session.play(number, call)
                except DeadObjectError:
                    self._report.differ(place(call), "the device has ended, or ended the session, in this call")
                    self._turns.fail()
                    return
                self._turns.end(number)
        except BaseException:
            self._turns.fail()
            raise
        finally:
            if session is not None:
                session.close()


def _origins(request: ReplayRequest, recording: DeviceRecording, report: ReplayReport) -> dict[int, str]:
    """Say for each model whose values differ from which operation on."""
    # A device tells nothing beside itself: the recorded one does.
    name = recording.header.driver if request.device == request.reference else request.reference
    with ExitStack() as stack:

        @cache
        def reference() -> RemoteDevice:
            return stack.enter_context(opened_device(name, _CLIENT))

        return {
            number: _origin(request, recording, report, number, (name, reference))
            for number in sorted(report.differing)
        }


def _origin(
    request: ReplayRequest,
    recording: DeviceRecording,
    report: ReplayReport,
    number: int,
    reference: tuple[str, Callable[[], RemoteDevice]],
) -> str:
    model, (place_of_run, run) = report.models[number], report.runs[number]
    with suppress(NnhalError, UnreadableError), opened_device(request.device, _CLIENT) as device:
        if is_right_by_itself(model, run, recording, device):
            return (
                f"no operation: by itself run {place_of_run} of the model is right. {request.device} keeps something "
                "between runs, or what was asked at the same time matters"
            )
    with opened_device(request.device, _CLIENT) as device:
        return origin_of(model, run, recording, (request.device, device), reference)


def is_right_by_itself(
    model: Model, execution: wire.RecordedExecution, recording: DeviceRecording, device: RemoteDevice
) -> bool:
    """Return whether a device that has run nothing else computes what was recorded.

    Raises UnreadableError if its inputs are not all in the recording.
    """
    known = with_inputs_of(model, execution, recording)
    (outputs,) = run_on(device, known, [arrays_of(known, known.main.input_indexes, execution.inputs, recording)])
    operands = [known.main.operands[index] for index in known.main.output_indexes]
    return not any(
        difference_of(known, operand, recording.content(content), bytes_of(got))
        for operand, content, got in zip(operands, execution.outputs, outputs, strict=True)
        if recording.has(content)
    )


class Turns:
    """The turns of calls of several sessions. Safe to use from several threads.

    Calls that overlap in the recording may overlap again. As each waits for earlier ones only, none waits for ever.
    """

    def __init__(self, calls: Sequence[RecordedCall]) -> None:
        by_end = sorted(range(len(calls)), key=lambda number: calls[number].ended_ns)
        ends = [calls[number].ended_ns for number in by_end]
        self._places = {number: place for place, number in enumerate(by_end)}
        self._before = [bisect_right(ends, call.started_ns) for call in calls]
        self._is_done = bytearray(len(calls))
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


def origin_of(
    model: Model,
    execution: wire.RecordedExecution,
    recording: DeviceRecording,
    device: tuple[str, RemoteDevice],
    reference: tuple[str, Callable[[], RemoteDevice]],
) -> str:
    """Say from which operation on a device and a reference differ on the inputs of an execution.

    Device and reference have names. Raises DeadObjectError if one of them ends.
    """
    if any(0 in lengths.dimensions for lengths in execution.lengths):
        return "an unknown operation, since an input of the execution is empty"
    model = with_inputs_of(model, execution, recording)
    try:
        given = arrays_of(model, model.main.input_indexes, execution.inputs, recording)
    except UnreadableError:
        return "an unknown operation, since the inputs of the execution are not all in the recording"
    inputs = dict(zip(model.main.input_indexes, given, strict=True))
    try:
        subject = Subject(_imported(model))
        ref = DeviceSide(AskedDevice(reference[0], reference[1]()), reference[1], subject)
        dut = DeviceSide(AskedDevice(device[0], device[1]), reference[1], subject)
        comparison = compare(subject, ref, dut, [inputs], Limits(), lambda: ref)
        report = comparison.report("")
    except (NnhalError, ValueError) as error:
        return f"an unknown operation, since they cannot be compared with {reference[0]}: {error}"
    first = report.first
    if first is None:
        return (
            f"no operation: {device[0]} and {reference[0]} agree, and differ from the recording, so it is the recorded "
            f"device, {recording.header.driver or 'whatever it was'}, that was wrong, or that computes otherwise"
        )
    made = {"made": "made there", "inherited": "inherited"}.get(first.origin, "")
    return (
        f"operation {first.number} ({first.kind}), by comparison with {reference[0]}: {made}, {'; '.join(first.over)}"
    )


def _imported(model: Model) -> ImportedModel:
    """A model that comes from no file."""
    nodes: tuple[tuple[str, ...], ...] = tuple(() for _ in model.main.operations)
    return ImportedModel(model, (), (), nodes, (), tuple("" for _ in model.main.operands))
