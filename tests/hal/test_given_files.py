"""Files that a user has named: regular, of a bounded size, and read without waiting."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

import pytest

from nnhal.given_files import parse_json, parse_toml, read_given_file, read_given_text, read_given_toml

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


def test_a_link_is_refused_where_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to("file")
    assert read_given_file(tmp_path / "file", MOST, "settings", follows=False) == b"x"
    with pytest.raises(OSError, match="link"):
        read_given_file(tmp_path / "link", MOST, "settings", follows=False)


@pytest.mark.parametrize(
    "text",
    [
        "a." * 500_000 + "a = 1",
        "[" + "a." * 500_000 + "a]",
        "x = {" + 'a."b".' * 100_000 + "a = 1}",
        "x = [1, {" + "a . 'b'\t. " * 100_000 + "a = 1}]",
        'x = ["""a"""", {y = """"""}, {' + "a." * 300_000 + 'a = 1}, "x"]',
        "x = ['''a'''', {" + "a." * 300_000 + "a = 1}]",
        '# "\n' + "a." * 300_000 + "a = 1",
    ],
)
def test_a_key_of_many_parts_is_refused_unread(tmp_path: Path, text: str) -> None:
    """The time that it takes grows with the square of its parts: minutes and gigabytes within the limit of bytes."""
    (tmp_path / "file").write_text(text)
    with pytest.raises(ValueError, match=r"file: line [12]: got a key of more than 8 parts, expected settings"):
        read_given_toml(tmp_path / "file", "settings")


def test_dots_that_are_no_part_of_a_key_are_read() -> None:
    names = ".".join("abcdefghijk")
    text = f'''
a.b.c.d.e.f.g.h = 1
"{names}" = "{names}"  # {names}
b = ['{names}', 1.5, "\\"{names}", 2020-01-01T00:00:00.123]
c = """
{names}
"""
d = \'\'\'{names}\'\'\'
'''
    found = parse_toml(text, "settings")
    assert (found[names], found["b"][0], found["d"]) == (names, names, names)


@pytest.mark.parametrize("text", ["[" * 100_000, b'{"a":' * 100_000, "{", "9" * 5000])
def test_json_that_cannot_be_read_is_refused(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"nested too deeply|Expecting property name|Exceeds the limit"):
        parse_json(text)
