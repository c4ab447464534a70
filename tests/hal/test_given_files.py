"""Files that a user has named: regular, of a bounded size, and read without waiting."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

import pytest

from nnhal.given_files import read_given_file, read_given_text, read_given_toml

MOST = 64


def test_a_file_is_read_whole_and_through_links(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * MOST)
    (tmp_path / "link").symlink_to("file")
    assert read_given_file(tmp_path / "file", MOST, "settings") == b"x" * MOST
    assert read_given_file(tmp_path / "link", MOST, "settings") == b"x" * MOST


def test_a_file_that_is_too_long_is_refused_unread(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        file.truncate(1 << 40)
    expected = f"{tmp_path}/file: got {1 << 40} bytes, expected settings of at most {MOST}"
    with pytest.raises(ValueError, match=re.escape(expected)):
        read_given_file(tmp_path / "file", MOST, "settings")


def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        for path, got in {
            tmp_path / "pipe": "a pipe",
            tmp_path / "socket": "no regular file",
            tmp_path: "a directory",
            Path("/dev/zero"): "a device",
        }.items():
            with pytest.raises(ValueError, match=rf"^{re.escape(str(path))}: got {got}, expected .*settings$"):
                read_given_file(path, MOST, "settings")


def test_a_file_without_an_end_is_refused() -> None:
    with pytest.raises(ValueError, match="/proc/self/status: got more than its 0 bytes, expected settings that stays"):
        read_given_file("/proc/self/status", MOST, "settings")


def test_a_file_that_is_missing_is_the_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_given_file(tmp_path / "none", MOST, "settings")


def test_text_must_be_utf_8(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"a\xff")
    with pytest.raises(ValueError, match=r"file: got no UTF-8, expected settings: .* position 1"):
        read_given_text(tmp_path / "file", "settings")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a = " + "[" * 100_000, ": got values nested too deeply, expected settings"),
        ("a = " + "9" * 5000, ": Exceeds the limit"),
        ("a = ", ": Invalid value"),
    ],
)
def test_toml_that_cannot_be_read_is_refused(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "file").write_text(text)
    with pytest.raises(ValueError, match=f"file{told}"):
        read_given_toml(tmp_path / "file", "settings")


def test_toml_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a = [1, 2]")
    assert read_given_toml(tmp_path / "file", "settings") == {"a": [1, 2]}
