"""A recording for people: what it is of, its models, and its calls one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime

from nnhal.recording import DeviceRecording, RecordedCall
from nnhal.types import ErrorStatus, OperationType
from nnhal.types.layout import is_extension
from nnhal.v1 import model_pb2
from nnhal.v1 import recording_pb2 as wire
from nnhal_pages.units import size

_NS = 1e9
_SHOWN_OPERATIONS = 6
_NAMED = {"client_name": "client", "prepared_model": "model", "request": "request", "buffer": "buffer"}
COLUMNS = ("at", "session", "call", "what", "took", "ended")


def headline(recording: DeviceRecording) -> list[str]:
    """Say what a recording is of and what it lacks, in sentences."""
    header, found = recording.header, recording.calls
    calls = sum(is_call(call.event) for call in found)
    sessions = len({call.event.session for call in found if call.event.session})
    began = datetime.fromtimestamp(header.started_unix_ms / 1000, UTC)
    lasted = max((call.ended_ns for call in found), default=0) / _NS
    lines = [
        f"{recording.path.name}: {header.driver} {header.driver_version}, recorded {began:%Y-%m-%d %H:%M:%S} UTC by "
        f"nnhal {header.nnhal_version or 'of unknown version'}",
        f"{calls} calls of {sessions} sessions in {lasted:.3f} s; {recording.contents} contents, "
        f"{size(recording.content_bytes)}",
    ]
    return lines + lacks(recording)


def lacks(recording: DeviceRecording) -> list[str]:
    """Say what a recording lacks; nothing if it lacks nothing."""
    omissions, end = recording.header.omissions, recording.end
    left_out = [name for name in ("contents", "weights", "names") if getattr(omissions, name)]
    lines = [f"left out: {', '.join(left_out)}"] if left_out else []
    if end is None:
        return [*lines, "it ends early: its device has died, or is recorded still"]
    if end.dropped_calls:
        lines.append(
            f"{end.dropped_calls} calls are missing: they came faster than they could be written, or it is full"
        )
    if end.dropped_contents:
        lines.append(f"{end.dropped_contents} contents are missing for the same reasons")
    return lines


def models(recording: DeviceRecording) -> Iterator[str]:
    """Say what each prepared model is, a line for each."""
    for number, recorded in sorted(recording.models.items()):
        constants = sum(one.value.size for one in recorded.constants)
        main = recorded.model.main
        yield (
            f"model {number}: {operations(recorded.model)}; {len(main.input_indexes)} inputs, "
            f"{len(main.output_indexes)} outputs, {size(constants)} of constants"
        )


def operations(model: model_pb2.Model) -> str:
    """Count the operations of main by their types."""
    counted = Counter(
        f"{one.type:#x}" if is_extension(one.type) else OperationType(one.type).name for one in model.main.operations
    )
    shown = [f"{count} {name}" if count > 1 else name for name, count in counted.most_common(_SHOWN_OPERATIONS)]
    left = len(counted) - _SHOWN_OPERATIONS
    return ", ".join([*shown, *([f"{left} more types"] if left > 0 else [])]) or "no operations"


def rows(recording: DeviceRecording) -> Iterator[tuple[str, ...]]:
    """The calls in the order in which they began, as rows of ``COLUMNS``."""
    for call in recording.calls:
        event = call.event
        status = ErrorStatus(event.status)
        yield (
            f"{call.started_ns / _NS:.6f}" if call.started_ns >= 0 else "before",
            str(event.session or ""),
            event.method,
            _what(event),
            f"{(call.ended_ns - call.started_ns) / 1e3:.0f} µs" if is_call(event) else "",
            "" if status == ErrorStatus.NONE else f"{status.name}: {event.message}".rstrip(": "),
        )


def is_call(event: wire.RecordedEvent) -> bool:
    """True if an event is a call."""
    about = event.WhichOneof("about")
    if about in ("session_opened", "session_ended"):
        return False
    return not (event.preparation.is_earlier or event.allocation.is_earlier)


def place(call: RecordedCall) -> str:
    """Name a call in messages."""
    return f"{call.event.method} of session {call.event.session} at {call.started_ns / _NS:.6f} s"


def _what(event: wire.RecordedEvent) -> str:
    """Name what an event is about: a client, or things by their numbers."""
    kind = event.WhichOneof("about")
    fields = getattr(event, kind).ListFields() if kind else []
    told = {field.name: value for field, value in fields if field.name in _NAMED}
    return ", ".join(f"{_NAMED[name]} {value}" for name, value in told.items())
