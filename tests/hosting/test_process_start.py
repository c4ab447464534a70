"""Facts of the kernel about a process that gives itself a name to lie with."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from nnhal_hosting.process_start import process_started_ns, status_words
from nnhal_hosting.supervision import is_traced

_PR_SET_NAME = 15


def _named(name: bytes, ready: Connection) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name, 0, 0, 0)
    ready.send(os.getuid())
    ready.recv()


@pytest.mark.parametrize(
    "name", ["\u2028Uid:\t7\t7\t7\t7".encode(), b"\rUid:\t7\t7\t7\t7", b"\x0cTracerPid:\t9", b"\xff\xfe) R 1 2 3"]
)
def test_a_name_is_no_field_of_a_status(name: bytes) -> None:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=_named, args=(name, theirs))
    process.start()
    try:
        uid = ours.recv()
        assert process.pid is not None
        status = Path(f"/proc/{process.pid}/status").read_bytes()
        assert name[:15] in status
        assert status_words(status, "Uid") == [str(uid)] * 4
        assert status_words(status, "Uids") == []
        assert not is_traced(process.pid)
        assert (process_started_ns(process.pid) or 0) > 0
    finally:
        ours.send(None)
        process.join()
