"""A recording for people: what it is of, its models, and its calls one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime

from nnhal.recording import DeviceRecording, RecordedCall
from nnhal.types import ErrorStatus, OperationType
from nnhal.types.layout import describe, is_extension
from nnhal.v1 import model_pb2
from nnhal.v1 import recording_pb2 as wire
from nnhal_pages.units import size

_NS = 1e9
_DIGITS = 8
_SHOWN_OPERATIONS = 6
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
            _what(event, recording.requests),
            f"{(call.ended_ns - call.started_ns) / 1e3:.0f} µs" if is_call(event) else "",
            "" if status == ErrorStatus.NONE else f"{status.name}: {event.message}".rstrip(": "),
        )


def is_call(event: wire.RecordedEvent) -> bool:
    """Whether an event is a call, and not what a recording tells beside calls."""
    about = event.WhichOneof("about")
    if about in ("session_opened", "session_ended"):
        return False
    return not (event.preparation.is_earlier or event.allocation.is_earlier)


def place(call: RecordedCall) -> str:
    """Name a call in messages."""
    return f"{call.event.method} of session {call.event.session} at {call.started_ns / _NS:.6f} s"


def _what(event: wire.RecordedEvent, requests: dict[int, wire.RecordedRequest]) -> str:
    about = event.WhichOneof("about")
    match about:
        case "session_opened":
            return event.session_opened.client_name
        case "preparation":
            return _preparation(event.preparation)
        case "question":
            return operations(event.question.model.model)
        case "request":
            return _request(event.request)
        case "execution":
            return _execution(event.execution, requests.get(event.execution.request))
        case "allocation":
            dimensions = describe(tuple(event.allocation.desc.dimensions)) if event.allocation.desc.dimensions else ""
            return f"buffer {event.allocation.buffer or ''} {dimensions}{_earlier(event.allocation.is_earlier)}".strip()
        case "copy":
            way = "into" if event.copy.is_into_buffer else "out of"
            return f"{_content(event.copy.value)} {way} buffer {event.copy.buffer}"
        case "release":
            kind = event.release.WhichOneof("kind")
            return f"{kind.replace('_', ' ')} {getattr(event.release, kind)}" if kind else ""
    return ""


def _preparation(about: wire.RecordedPreparation) -> str:
    name = f"model {about.prepared_model}" if about.prepared_model else operations(about.model.model)
    return f"{name}{' from its cache' if about.is_from_cache else ''}{_earlier(about.is_earlier)}"


def _earlier(is_earlier: bool) -> str:
    return ", from before" if is_earlier else ""


def _request(about: wire.RecordedRequest) -> str:
    pools = zip(about.pool_kinds, about.pool_bytes, strict=False)
    kinds = ", ".join(f"{kind} {size} B" if size else kind for kind, size in pools)
    name = f"request {about.request}" if about.request else "request"
    return f"{name} of model {about.prepared_model}: {kinds or 'no pools'}"


def _execution(about: wire.RecordedExecution, request: wire.RecordedRequest | None) -> str:
    name = (
        f"request {about.request}" if request is None else f"request {about.request} of model {request.prepared_model}"
    )
    values = [f"{_contents(about.inputs)} → {_contents(about.outputs)}"] if about.inputs or about.outputs else []
    lengths = ", ".join(f"{list(one.dimensions)} for input {one.input}" for one in about.lengths)
    shapes = [describe(tuple(shape.dimensions)) for shape in about.result.output_shapes]
    return "; ".join(
        [name, *([lengths] if lengths else []), *values, *([f"outputs {' '.join(shapes)}"] if shapes else [])]
    )


def _contents(contents: object) -> str:
    return " ".join(_content(content) for content in contents) or "nothing"  # type: ignore[attr-defined]


def _content(content: wire.RecordedContent) -> str:
    if not content.size and not content.digest:
        return "-"
    return f"{content.digest.hex()[:_DIGITS]}{'' if content.digest else 'left out'}:{content.size} B"
