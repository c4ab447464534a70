"""The form of a recording's file: a magic number, then records, each with its kind, its length and a checksum."""

from __future__ import annotations

import struct
from enum import IntEnum

MAGIC = b"\x89NNREC\r\n"
"""The first bytes. As in PNG, they show whether the file went through something that took it for text."""
VERSION = 1
"""The version of the form, in the header."""
RECORD = struct.Struct("<BII")
"""Before each record: its kind, the length of its payload in bytes, and the CRC-32 of the payload."""
CONTENT = struct.Struct("<32sQ")
"""Before each content: its SHA-256, and how many bytes it has before compression."""
MAX_CONTENT_BYTES = (1 << 32) - (1 << 20)
"""Bytes of one content: longer ones are left out."""
MAX_EVENTS_BYTES = 256 << 20
"""Bytes of one record of events before compression, models without their constants included."""
FREE_EVENTS_BYTES = 16 << 20
EVENTS_BYTES_EACH = 128
"""Bytes of all events before compression that a file may have: a fixed number, and a number for each byte of the file,
since the times of events do not compress to less.
"""
FREE_RECORDS = 1_000_000
"""Calls that a file may have, besides one for each of its bytes: the times of a call take more than one."""
FREE_CONTENT_BYTES = 1 << 30
CONTENT_BYTES_EACH = 128
"""Bytes that all contents of a file together stand for, and those of one call: some, and so many more for each byte of
the file. What compresses further is written as it is.
"""

INVALID_DEADLINE = -(1 << 63)
"""Stands for a deadline that was a number below -1, and so no instant."""


class RecordKind(IntEnum):
    """Content of a record."""

    HEADER = 1
    EVENTS = 2
    CONTENT = 3
    END = 4


class DeviceRecordingError(ValueError):
    """A file is no recording, or a damaged one, or of a later version."""
