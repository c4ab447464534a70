"""Arrays in files that a user has named: of the size that they announce, and read without waiting."""

from __future__ import annotations

import io
import os
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from nnhal.given_arrays import read_given_arrays, unpack_arrays

VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)


def header(shape: str, size: int = 118) -> bytes:
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}".ljust(size - 1) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", size) + text.encode()


def packed(content: bytes, name: str = "x.npy") -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return file.getvalue()


def test_arrays_are_read_by_their_names(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", VALUES)
    np.savez(tmp_path / "some.npz", x=VALUES, y=VALUES.astype(np.int64))
    np.savez_compressed(tmp_path / "small.npz", x=VALUES)
    assert read_given_arrays(tmp_path / "one.npy")[""].tobytes() == VALUES.tobytes()
    found = read_given_arrays(tmp_path / "some.npz")
    assert (found["x"] == VALUES).all() and found["y"].dtype == np.int64
    assert (read_given_arrays(tmp_path / "small.npz")["x"] == VALUES).all()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "does not begin as arrays do"),
        (b"no array", "does not begin as arrays do"),
        (header("(1 << 40,)"), "Cannot parse header|malformed"),
        (header("(1099511627776,)"), "it announces 4,398,046,511,104 bytes of numbers, and has 128 in all"),
        (packed(header("(1099511627776,)")), "it announces 4,398,046,511,104 bytes of numbers"),
        (packed(b"no array"), "does not begin as arrays do"),
        (packed(header("(4,)") + bytes(16))[:-30], "does not begin as arrays do|no .npz file"),
    ],
)
def test_what_holds_no_such_array_is_refused_in_one_sentence(tmp_path: Path, content: bytes, told: str) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(ValueError, match=rf"^{tmp_path}/file: .*({told}).*; expected an input, as numpy saves it$"):
        read_given_arrays(tmp_path / "file", "an input")


def test_objects_are_not_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "file.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"allow_pickle|Object arrays"):
        read_given_arrays(tmp_path / "file.npy")


def test_archives_that_unpack_to_too_much_are_refused_unread() -> None:
    content = bytearray(packed(header("(4,)") + bytes(16)))
    at = content.rindex(b"PK\x01\x02") + 24
    content[at : at + 4] = struct.pack("<I", 0xFFFFFFF0)
    with pytest.raises(ValueError, match="its arrays have 4294967280 bytes, at most 2147483648 are read"):
        unpack_arrays(io.BytesIO(bytes(content)))


def test_nobody_waits_for_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match=r"pipe: got a pipe, expected a regular file: arrays in .npy or .npz"):
        read_given_arrays(tmp_path / "pipe")
