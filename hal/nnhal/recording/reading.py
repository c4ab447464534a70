"""Reading a recording. Contents stay in the file until they are asked for."""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, TypeVar

from google.protobuf.message import DecodeError, Message

from nnhal.contexts import Closing
from nnhal.given_files import open_given_file
from nnhal.recording.file_form import (
    CONTENT,
    CONTENT_BYTES_EACH,
    EVENTS_BYTES_EACH,
    FREE_CONTENT_BYTES,
    FREE_EVENTS_BYTES,
    FREE_RECORDS,
    MAGIC,
    MAX_CONTENT_BYTES,
    MAX_EVENTS_BYTES,
    RECORD,
    VERSION,
    DeviceRecordingError,
    RecordKind,
)
from nnhal.v1 import recording_pb2 as wire

M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One call. Instants are in nanoseconds since the recording began."""

    started_ns: int
    ended_ns: int
    event: wire.RecordedEvent = field(repr=False)
    """What was called. Equal calls share one event, which has the instants of the first of them."""


class DeviceRecording(Closing):
    """A recording that was read. Use it as a context: it keeps the file open."""

    def __init__(self, path: Path) -> None:
        """Read all but the contents. Raises OSError, DeviceRecordingError, and ValueError if it is no regular file."""
        self.path = path
        self.header = wire.RecordingHeader()
        self.end: wire.RecordingFigures | None = None
        """What the writer has counted; None if the recording ends early, since its device has died or is writing it."""
        self._events: list[wire.RecordedEvent] = []
        self._places: dict[bytes, tuple[int, int, int]] = {}
        """For each content, by its digest: where its record is, how long that is, and how many bytes it stands for."""
        self._file = open_given_file(path, "a recording of a device")
        self._size = os.fstat(self._file.fileno()).st_size
        self._bytes_left = FREE_EVENTS_BYTES + EVENTS_BYTES_EACH * self._size
        self._records_left = FREE_RECORDS + self._size
        self._most_content_bytes = FREE_CONTENT_BYTES + CONTENT_BYTES_EACH * self._size
        self._content_bytes_left = self._most_content_bytes
        try:
            self._read()
        except BaseException:
            self._file.close()
            raise

    @property
    def calls(self) -> list[RecordedCall]:
        """All calls, in the order in which they began."""
        found = [call for event in self._events for call in _each(event)]
        return sorted(found, key=lambda call: call.started_ns)

    @cached_property
    def models(self) -> dict[int, wire.RecordedModel]:
        """The models that were prepared, by the numbers of the prepared models."""
        found = (event.preparation for event in self._events if event.preparation.prepared_model)
        return {about.prepared_model: about.model for about in found}

    @cached_property
    def requests(self) -> dict[int, wire.RecordedRequest]:
        """The requests that were bound, by their numbers."""
        return {event.request.request: event.request for event in self._events if event.request.request}

    @property
    def content_bytes(self) -> int:
        """The bytes of contents, as compressed."""
        return sum(length for _, length, _ in self._places.values())

    @property
    def contents(self) -> int:
        """Return how many contents it has."""
        return len(self._places)

    def has(self, content: wire.RecordedContent) -> bool:
        """Return whether the file has the bytes that a content stands for."""
        return content.digest in self._places

    def content(self, content: wire.RecordedContent) -> bytes:
        """Return the bytes that a content stands for. Raises OSError, and DeviceRecordingError if it lacks them."""
        place = self._places.get(content.digest)
        if place is None:
            raise DeviceRecordingError(f"{self.path}: {content.size} bytes were left out of the recording")
        offset, length, size = place
        if content.size != size:
            raise self._damaged(offset, f"a content of {size} bytes, which a call has as one of {content.size}")
        payload = os.pread(self._file.fileno(), length, offset)
        digest, _ = CONTENT.unpack_from(payload)
        data = _decompressed(payload[CONTENT.size :], size)
        if data is None or len(data) != size or hashlib.sha256(data).digest() != digest:
            raise self._damaged(offset, "a content that is not what its digest says")
        return data

    def require_bounded(self, event: wire.RecordedEvent) -> None:
        """Raise DeviceRecordingError if the contents of a call stand for more bytes than a file of this size may."""
        size = sum(content.size for content in contents_of(event))
        if size > self._most_content_bytes:
            raise DeviceRecordingError(
                f"calls whose values are larger than the {self._most_content_bytes} bytes that a file of "
                f"{self._size} bytes may stand for"
            )

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read(self) -> None:
        if self._file.read(len(MAGIC)) != MAGIC:
            raise DeviceRecordingError(f"{self.path}: not a recording of a device: it does not begin as one")
        records = self._payloads()
        kind, offset, payload = next(records, (0, 0, b""))
        if kind != RecordKind.HEADER:
            raise DeviceRecordingError(f"{self.path}: a recording without a header, expected one at its beginning")
        self.header = self._parsed(wire.RecordingHeader, payload, offset)
        if self.header.version != VERSION:
            raise DeviceRecordingError(
                f"{self.path}: a recording of version {self.header.version}, written by nnhal "
                f"{self.header.nnhal_version or 'of unknown version'}; this one reads version {VERSION}"
            )
        for kind, offset, payload in records:
            if self.end is not None:
                raise self._damaged(offset, "a record behind the end")
            self._take(kind, offset, payload)

    def _take(self, kind: int, offset: int, payload: bytes) -> None:
        if kind == RecordKind.EVENTS:
            most = min(MAX_EVENTS_BYTES, self._bytes_left)
            message = _decompressed(payload, most)
            if message is None:
                raise self._damaged(offset, f"calls that cannot be decompressed to at most {most} bytes")
            events = self._parsed(wire.RecordedEvents, message, offset).events
            self._bytes_left -= len(message)
            self._records_left -= sum(1 + len(event.again_ns) // 2 for event in events)
            if self._records_left < 0:
                most = FREE_RECORDS + self._size
                raise self._damaged(offset, f"more than {most} calls in a file of {self._size} bytes")
            self._events += events
        elif kind == RecordKind.CONTENT and len(payload) >= CONTENT.size:
            digest, size = CONTENT.unpack_from(payload)
            if size > MAX_CONTENT_BYTES:
                raise self._damaged(offset, f"a content of {size} bytes, expected at most {MAX_CONTENT_BYTES}")
            self._content_bytes_left -= size
            if self._content_bytes_left < 0:
                most = self._most_content_bytes
                raise self._damaged(offset, f"contents of more than {most} bytes in a file of {self._size} bytes")
            self._places[digest] = (offset, len(payload), size)
        elif kind == RecordKind.END:
            self.end = self._parsed(wire.RecordingEnd, payload, offset).figures
        else:
            raise self._damaged(offset, f"a record of kind {kind} and {len(payload)} bytes, which version 1 has not")

    def _payloads(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield kind, place and payload of each record. What ends in the middle of a record ends before it."""
        while len(head := self._file.read(RECORD.size)) == RECORD.size:
            kind, length, checksum = RECORD.unpack(head)
            offset = self._file.tell()
            payload = _exactly(self._file, length)
            if payload is None:
                return
            if zlib.crc32(payload) != checksum:
                raise self._damaged(offset, "a record whose checksum is wrong")
            yield kind, offset, payload

    def _parsed(self, kind: type[M], payload: bytes, offset: int) -> M:
        try:
            return kind.FromString(payload)
        except DecodeError as error:
            raise self._damaged(offset, "a record that cannot be read") from error

    def _damaged(self, offset: int, what: str) -> DeviceRecordingError:
        return DeviceRecordingError(f"{self.path}: damaged at byte {offset}: {what}")


def read_device_recording(path: Path) -> DeviceRecording:
    """Open a recording. Raises OSError, and DeviceRecordingError if it is none, damaged, or of another version."""
    return DeviceRecording(path)


def contents_of(event: wire.RecordedEvent) -> Iterator[wire.RecordedContent]:
    """The contents that a call refers to, each as often as it does."""
    model = event.preparation.model if event.HasField("preparation") else event.question.model
    yield from (constant.value for constant in model.constants)
    yield from event.execution.inputs
    yield from event.execution.outputs
    yield event.allocation.value
    yield event.copy.value


def _each(event: wire.RecordedEvent) -> Iterator[RecordedCall]:
    yield RecordedCall(event.started_ns, event.ended_ns, event)
    started = event.started_ns
    for after, took in zip(event.again_ns[::2], event.again_ns[1::2], strict=False):
        started += after
        yield RecordedCall(started, started + took, event)


def _exactly(file: BinaryIO, length: int) -> bytes | None:
    """Read so many bytes; None if there are fewer, which is looked at before memory is taken for them."""
    if os.fstat(file.fileno()).st_size - file.tell() < length:
        return None
    data = file.read(length)
    return data if len(data) == length else None


def _decompressed(data: bytes, most: int) -> bytes | None:
    """Decompress to so many bytes at most; None if there would be more, or if the data are not valid."""
    engine = zlib.decompressobj()
    try:
        found = engine.decompress(data, most + 1)
    except zlib.error:
        return None
    return found if len(found) <= most and engine.eof else None
