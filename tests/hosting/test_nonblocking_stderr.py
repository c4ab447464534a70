"""Lines on a standard error that may not be read."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from nnhal_hosting.nonblocking_stderr import NonBlockingStderr

SIZE = 4096


class Pipe(NamedTuple):
    """An stderr, and the end at which it is read."""

    stderr: NonBlockingStderr
    reader: int

    def read(self) -> bytes:
        os.set_blocking(self.reader, False)
        return os.read(self.reader, 16 * SIZE)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, SIZE)
    with os.fdopen(writer, "w") as stream:
        yield Pipe(NonBlockingStderr(lambda: stream), reader)
    os.close(reader)


def test_a_line_is_written_at_once(pipe: Pipe) -> None:
    pipe.stderr.write("größer\n")
    assert pipe.read() == "größer\n".encode()


def test_lines_that_nobody_reads_are_dropped_and_counted(pipe: Pipe) -> None:
    pipe.stderr.write("x" * SIZE)
    for _ in range(3):
        pipe.stderr.write("lost\n")
    assert pipe.read() == b"x" * SIZE
    pipe.stderr.write("heard\n")
    assert pipe.read() == b"3 lines could not be written here\nheard\n"


def test_a_disk_without_room_drops_lines() -> None:
    with Path("/dev/full").open("w") as stream:
        assert NonBlockingStderr(lambda: stream).write("lost\n") == 5


def test_a_process_without_standard_error_goes_on() -> None:
    assert NonBlockingStderr(lambda: None).write("lost\n") == 5
