"""Reading files that a user or an operator has named: settings, tokens, certificates, plans, models.

What is named may be a pipe that nobody writes to, a device without an end, or far larger than it should be. Each is
refused at once, with a sentence.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import tomllib
from collections.abc import Callable, Mapping
from io import BufferedReader
from typing import Any

MOST_TEXT_BYTES = 1 << 20
"""Bytes of a file that people write: settings, tokens, certificates."""
MOST_MODEL_BYTES = 1 << 31
"""Bytes of a model's file, which neither protobuf nor flatbuffers can exceed."""
_MOST_KEY_PARTS = 8
_PART = r'(?:(?<![\w-])[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"|\'[^\'\n]*+\')'
_TOML_PARTS = re.compile(
    r'"""(?:[^"\\]|\\[\s\S]|"(?!""))*+(?:"{3,5}|\Z)'
    r"|'''[\s\S]*?(?:'{3,5}|\Z)"
    r"|#[^\n]*+"
    rf"|(?P<deep>{_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{_MOST_KEY_PARTS}}})"
    rf"|{_PART}"
)
"""Texts of several lines, comments, keys with more parts than there may be, and single parts of keys and values."""
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_given_file(
    path: str | os.PathLike[str], what: str, follows: bool = True, shown: str | None = None
) -> BufferedReader:
    """Open a regular file for reading, without waiting for anybody; ``what`` is what it should hold.

    If it does not ``follow`` links, a link is refused. Raises OSError, or ValueError if it is something else; the
    message begins with what is ``shown`` for the path.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | (0 if follows else os.O_NOFOLLOW)
    shown = os.fspath(path) if shown is None else shown
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, or a device that is not there
            raise ValueError(f"{shown}: got no regular file, expected {what}") from error
        raise
    kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
    if kind != stat.S_IFREG:
        os.close(descriptor)
        raise ValueError(f"{shown}: got {_KINDS[kind]}, expected a regular file: {what}")
    return os.fdopen(descriptor, "rb")


def read_given_file(
    path: str | os.PathLike[str], most_bytes: int, what: str, follows: bool = True, shown: str | None = None
) -> bytes:
    """Return the bytes of a regular file. Raises as ``open_given_file``, and ValueError if there are too many."""
    shown = os.fspath(path) if shown is None else shown
    with open_given_file(path, what, follows, shown) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most_bytes:
            raise ValueError(f"{shown}: got {size} bytes, expected {what} of at most {most_bytes}")
        content = file.read(size + 1)
    if len(content) > size:
        raise ValueError(f"{shown}: got more than its {size} bytes, expected {what} that stays as it is")
    return content


def read_given_text(path: str | os.PathLike[str], what: str, most_bytes: int = MOST_TEXT_BYTES) -> str:
    """Return the text of a regular file. Raises as ``read_given_file``, and ValueError if it is no UTF-8."""
    try:
        return read_given_file(path, most_bytes, what).decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{os.fspath(path)}: got no UTF-8, expected {what}: {error}") from error


def read_given_toml(path: str | os.PathLike[str], what: str) -> dict[str, Any]:
    """Return the table of a TOML file. Raises as ``read_given_text``, and ValueError if it is no TOML."""
    text = read_given_text(path, what)
    try:
        return parse_toml(text, what)
    except ValueError as error:  # also a number that is too long
        raise ValueError(f"{os.fspath(path)}: {error}") from error


def parse_toml(text: str, what: str) -> dict[str, Any]:
    """Return the table of a text in TOML. Raises ValueError if it is none, or has keys or values that are too deep.

    The time and the memory that tomllib takes grow with the square of the parts of a key.
    """
    deep = next((match for match in _TOML_PARTS.finditer(text) if match["deep"]), None)
    if deep is not None:
        line = text.count("\n", 0, deep.start()) + 1
        raise ValueError(f"line {line}: got a key of more than {_MOST_KEY_PARTS} parts, expected {what}")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError(f"got values nested too deeply, expected {what}") from None


def parse_json(text: str | bytes, objects: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """Return what a text in JSON says; ``objects`` makes an object of its members.

    Raises ValueError if it is none, or has values that are nested too deeply.
    """
    try:
        return json.loads(text, object_pairs_hook=objects)
    except RecursionError:
        raise ValueError("got values nested too deeply") from None


def without_version(given: Mapping[str, Any], known: int, what: str) -> dict[str, Any]:
    """Return a document without its ``version``, which it may leave out. Raises ValueError if it is not ``known``."""
    version = given.get("version", known)
    if type(version) is not int or version != known:
        raise ValueError(f"{what} of version {version!r:.40}; this nnhal reads version {known}")
    return {name: value for name, value in given.items() if name != "version"}
