"""Writing a recording, record by record, so that it can be read up to where its device has died."""

from __future__ import annotations

import hashlib
import os
import threading
import zlib
from collections.abc import Sequence

from nnhal.arrays import Bytes
from nnhal.recording.file_form import (
    CONTENT,
    CONTENT_BYTES_EACH,
    FREE_CONTENT_BYTES,
    MAGIC,
    MAX_CONTENT_BYTES,
    MAX_EVENTS_BYTES,
    RECORD,
    RecordKind,
)
from nnhal.v1 import recording_pb2 as wire

_LEVEL = 1
"""The level of compression, a low one, since recording has to be fast."""
_END_BYTES = 4096
"""Bytes that are kept free for the last record, whatever the limit is."""


class RecordingWriter:
    """Writes one file. Safe to use from several threads. Every method raises OSError if the file cannot be written."""

    def __init__(self, file: int, header: wire.RecordingHeader, max_bytes: int = 0) -> None:
        """Begin the file, which is open for writing and stays the caller's; ``max_bytes`` is 0 for no limit."""
        self._file = file
        self._room = max_bytes - _END_BYTES if max_bytes else None
        self._lock = threading.Lock()
        self._known: dict[bytes, bool] = {}
        self._content_bytes = 0
        self._is_closed = False
        self.bytes = 0
        """Bytes that were written."""
        self.contents = 0
        """Contents that the file has."""
        self._put(MAGIC)
        self._record(RecordKind.HEADER, header.SerializeToString())

    def events(self, events: Sequence[wire.RecordedEvent]) -> bool:
        """Write calls, and return whether there was room for them."""
        message = wire.RecordedEvents(events=events).SerializeToString()
        if len(message) > MAX_EVENTS_BYTES:
            if len(events) == 1:
                return False
            half = len(events) // 2
            first, second = self.events(events[:half]), self.events(events[half:])
            return first and second
        with self._lock:
            return self._record(RecordKind.EVENTS, zlib.compress(message, _LEVEL))

    def content(self, data: Bytes) -> wire.RecordedContent:
        """Write some contiguous bytes unless the file has them, and return what stands for them."""
        size = len(data)
        digest = hashlib.sha256(data.data).digest()
        with self._lock:
            kept = self._known.get(digest)
            if kept is None:
                kept = size <= MAX_CONTENT_BYTES and self._record(
                    RecordKind.CONTENT, CONTENT.pack(digest, size) + self._compressed(data)
                )
                self._known[digest] = kept
                self.contents += kept
                self._content_bytes += size if kept else 0
        return wire.RecordedContent(digest=digest, size=size, is_left_out=not kept)

    def end(self, figures: wire.RecordingFigures) -> None:
        with self._lock:
            self._room = None
            self._record(RecordKind.END, wire.RecordingEnd(figures=figures).SerializeToString())

    def close(self) -> None:
        """Ignore further calls of any thread, so that the file may be closed."""
        with self._lock:
            self._is_closed = True

    def _compressed(self, data: Bytes) -> bytes:
        """Compress a content, unless the file would then stand for more than its reader expects."""
        packed = zlib.compress(data.data, _LEVEL)
        most = FREE_CONTENT_BYTES + CONTENT_BYTES_EACH * (self.bytes + len(packed))
        return packed if self._content_bytes + len(data) <= most else zlib.compress(data.data, 0)

    def _record(self, kind: RecordKind, payload: bytes) -> bool:
        needed = RECORD.size + len(payload)
        if self._is_closed:
            return False
        if self._room is not None and self.bytes + needed > self._room:
            return False
        self._put(RECORD.pack(kind, len(payload), zlib.crc32(payload)) + payload)
        return True

    def _put(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            count = os.write(self._file, view)
            self.bytes += count
            view = view[count:]
