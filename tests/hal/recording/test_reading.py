"""The file of a recording: what it gives back, and which files are refused."""

from __future__ import annotations

import hashlib
import os
import zlib
from pathlib import Path

import numpy as np
import pytest

from nnhal.recording import DeviceRecordingError, RecordingWriter, read_device_recording, reading, writing
from nnhal.recording.file_form import CONTENT, MAGIC, RECORD, RecordKind
from nnhal.v1 import recording_pb2 as wire

VALUES = np.arange(1000, dtype=np.uint8)


def events(count: int) -> list[wire.RecordedEvent]:
    return [wire.RecordedEvent(started_ns=n, ended_ns=n + 5, session=1, method="Channel.Burst") for n in range(count)]


def write(path: Path, version: int = 1, max_bytes: int = 0, ends: bool = True) -> RecordingWriter:
    with path.open("wb") as file:
        writer = RecordingWriter(file.fileno(), wire.RecordingHeader(version=version, nnhal_version="9.9"), max_bytes)
        writer.content(VALUES)
        writer.events(events(2))
        if ends:
            writer.end(wire.RecordingFigures(calls=2))
    return writer


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.nnrec"
    assert write(path).bytes == path.stat().st_size
    with read_device_recording(path) as recording:
        assert [call.started_ns for call in recording.calls] == [0, 1]
        assert recording.end is not None
        assert recording.end.calls == 2


def test_equal_contents_are_written_once(tmp_path: Path) -> None:
    path = tmp_path / "a.nnrec"
    with path.open("wb") as file:
        writer = RecordingWriter(file.fileno(), wire.RecordingHeader(version=1))
        contents = [writer.content(VALUES), writer.content(VALUES.copy()), writer.content(VALUES[:10])]
    assert writer.contents == 2
    with read_device_recording(path) as recording:
        assert [recording.content(content) for content in contents] == [
            bytes(VALUES),
            bytes(VALUES),
            bytes(VALUES[:10]),
        ]


def test_repeated_calls_have_their_own_times(tmp_path: Path) -> None:
    path = tmp_path / "a.nnrec"
    (event,) = events(1)
    event.again_ns.extend((100, 7, 50, 8))
    with path.open("wb") as file:
        RecordingWriter(file.fileno(), wire.RecordingHeader(version=1)).events([event])
    with read_device_recording(path) as recording:
        assert [(one.started_ns, one.ended_ns) for one in recording.calls] == [(0, 5), (100, 107), (150, 158)]


def test_what_does_not_fit_is_left_out_and_the_end_still_fits(tmp_path: Path) -> None:
    path = tmp_path / "a.nnrec"
    noise = np.frombuffer(os.urandom(20_000), np.uint8)
    with path.open("wb") as file:
        writer = RecordingWriter(file.fileno(), wire.RecordingHeader(version=1), max_bytes=10_000)
        assert writer.content(noise).is_left_out
        assert writer.events(events(2))
        assert not writer.events([wire.RecordedEvent(message=noise.tobytes().hex())])
        writer.end(wire.RecordingFigures(dropped_contents=1))
    assert path.stat().st_size <= 10_000
    with read_device_recording(path) as recording:
        assert len(recording.calls) == 2
        with pytest.raises(DeviceRecordingError, match="20000 bytes were left out"):
            recording.content(wire.RecordedContent(digest=bytes(32), size=20_000))


@pytest.mark.parametrize("cut", [1, RECORD.size, 40])
def test_a_recording_that_ends_early_is_read_up_to_there(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "a.nnrec"
    write(path, ends=False)
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    with read_device_recording(path) as recording:
        assert recording.end is None
        assert recording.contents == 1
        assert recording.calls == []


def test_every_damaged_byte_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.nnrec"
    write(path)
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[place] ^= 0x10
        path.write_bytes(damaged)
        try:
            with read_device_recording(path) as recording:
                assert recording.end is None, place  # a length that grew: the file seems to end early
        except DeviceRecordingError as error:
            assert str(path) in str(error)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "does not begin as one"),
        (b"#!/bin/sh\necho 1\n", "does not begin as one"),
        (MAGIC.replace(b"\r\n", b"\n") + b"12", "does not begin as one"),
        (MAGIC, "without a header"),
    ],
)
def test_foreign_files_are_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "a.nnrec"
    path.write_bytes(content)
    with pytest.raises(DeviceRecordingError, match=words):
        read_device_recording(path)


def test_a_later_version_is_refused_with_both_versions(tmp_path: Path) -> None:
    path = tmp_path / "a.nnrec"
    write(path, version=2)
    with pytest.raises(DeviceRecordingError, match=r"version 2, written by nnhal 9\.9; this one reads version 1"):
        read_device_recording(path)


def test_a_content_is_not_decompressed_beyond_its_size(tmp_path: Path) -> None:
    path = tmp_path / "a.nnrec"
    write(path, ends=False)
    digest = bytes(range(32))
    payload = CONTENT.pack(digest, 10) + zlib.compress(bytes(1 << 20))
    with path.open("ab") as file:
        file.write(RECORD.pack(RecordKind.CONTENT, len(payload), zlib.crc32(payload)) + payload)
    with read_device_recording(path) as recording, pytest.raises(DeviceRecordingError, match="damaged at byte"):
        recording.content(wire.RecordedContent(digest=digest, size=10))


def test_nothing_is_written_once_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "a.nnrec"
    with path.open("wb") as file:
        writer = RecordingWriter(file.fileno(), wire.RecordingHeader(version=1))
        writer.close()
        size = path.stat().st_size
        assert writer.content(VALUES).is_left_out
        assert not writer.events(events(1))
        assert path.stat().st_size == size


@pytest.mark.parametrize("repetitions", [10, 2_000_000])
def test_a_small_file_stands_for_a_bounded_number_of_calls(tmp_path: Path, repetitions: int) -> None:
    path = tmp_path / "a.nnrec"
    (event,) = events(1)
    event.again_ns.extend([0] * (2 * repetitions))
    with path.open("wb") as file:
        RecordingWriter(file.fileno(), wire.RecordingHeader(version=1)).events([event])
    size = path.stat().st_size
    if repetitions == 10:
        with read_device_recording(path) as recording:
            assert len(recording.calls) == 11
    else:
        with pytest.raises(DeviceRecordingError, match=f"more than {1_000_000 + size} calls in a file of {size} bytes"):
            read_device_recording(path)


def test_all_calls_of_a_small_file_together_are_bounded_before_they_are_decompressed(tmp_path: Path) -> None:
    path = tmp_path / "a.nnrec"
    with path.open("wb") as file:
        writer = RecordingWriter(file.fileno(), wire.RecordingHeader(version=1))
        for _ in range(25):
            writer.events([wire.RecordedEvent(message="x" * (4 << 20))])
    with pytest.raises(DeviceRecordingError, match="calls that cannot be decompressed to at most"):
        read_device_recording(path)


def test_a_pipe_is_no_recording(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe: got a pipe, expected a regular file: a recording"):
        read_device_recording(tmp_path / "pipe")


def test_contents_that_stand_for_far_more_than_the_file_has_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "FREE_CONTENT_BYTES", 1000)
    path = tmp_path / "a.nnrec"
    write(path, ends=False)
    payload = CONTENT.pack(bytes(range(32)), 1 << 20) + zlib.compress(bytes(1 << 20))
    with path.open("ab") as file:
        file.write(RECORD.pack(RecordKind.CONTENT, len(payload), zlib.crc32(payload)) + payload)
    size = path.stat().st_size
    with pytest.raises(
        DeviceRecordingError, match=f"contents of more than {1000 + 128 * size} bytes in a file of {size}"
    ):
        read_device_recording(path)


def test_what_compresses_too_well_is_written_so_that_it_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in reading, writing:
        monkeypatch.setattr(module, "FREE_CONTENT_BYTES", 0)
    path = tmp_path / "a.nnrec"
    with path.open("wb") as file:
        writer = RecordingWriter(file.fileno(), wire.RecordingHeader(version=1))
        zeros = [writer.content(np.zeros(size, np.uint8)) for size in (1 << 20, 1 << 19, 100)]
    with read_device_recording(path) as recording:
        assert [recording.content(content) for content in zeros] == [bytes(1 << 20), bytes(1 << 19), bytes(100)]


@pytest.mark.parametrize("kind", ["inputs", "outputs", "constants"])
def test_a_call_may_not_repeat_a_content_without_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(reading, "FREE_CONTENT_BYTES", 1000)
    path = tmp_path / "a.nnrec"
    write(path)
    content = wire.RecordedContent(digest=hashlib.sha256(VALUES.data).digest(), size=1 << 20)
    event = wire.RecordedEvent()
    if kind == "constants":
        event.preparation.model.constants.add(value=content)
    else:
        getattr(event.execution, kind).append(content)
    with read_device_recording(path) as recording:
        recording.require_bounded(wire.RecordedEvent())
        with pytest.raises(DeviceRecordingError, match="calls whose values are larger than the"):
            recording.require_bounded(event)


def test_a_content_has_the_size_that_the_call_says(tmp_path: Path) -> None:
    path = tmp_path / "a.nnrec"
    write(path)
    content = wire.RecordedContent(digest=hashlib.sha256(VALUES.data).digest(), size=len(VALUES) - 1)
    with read_device_recording(path) as recording, pytest.raises(DeviceRecordingError, match="a content of 1000 bytes"):
        recording.content(content)
