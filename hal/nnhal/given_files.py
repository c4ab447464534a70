"""Reading files that a user or an operator has named: settings, tokens, certificates, plans, models.

What is named may be a pipe that nobody writes to, a device without an end, or far larger than it should be. Each is
refused at once, with a sentence.
"""

from __future__ import annotations

import errno
import os
import stat
import tomllib
from collections.abc import Mapping
from typing import Any, BinaryIO

MOST_TEXT_BYTES = 1 << 20
"""Bytes of a file that people write: settings, tokens, certificates."""
MOST_MODEL_BYTES = 1 << 31
"""Bytes of a model's file, which neither protobuf nor flatbuffers can exceed."""
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_given_file(path: str | os.PathLike[str], what: str) -> BinaryIO:
    """Open a regular file for reading, without waiting for anybody; ``what`` is what it should hold.

    Raises OSError, or ValueError if it is something else, with its path.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, or a device that is not there
            raise ValueError(f"{os.fspath(path)}: got no regular file, expected {what}") from error
        raise
    kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
    if kind != stat.S_IFREG:
        os.close(descriptor)
        raise ValueError(f"{os.fspath(path)}: got {_KINDS[kind]}, expected a regular file: {what}")
    return os.fdopen(descriptor, "rb")


def read_given_file(path: str | os.PathLike[str], most_bytes: int, what: str) -> bytes:
    """Return the bytes of a regular file. Raises as ``open_given_file``, and ValueError if there are too many."""
    with open_given_file(path, what) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most_bytes:
            raise ValueError(f"{os.fspath(path)}: got {size} bytes, expected {what} of at most {most_bytes}")
        content = file.read(size + 1)
    if len(content) > size:
        raise ValueError(f"{os.fspath(path)}: got more than its {size} bytes, expected {what} that stays as it is")
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
        return tomllib.loads(text)
    except ValueError as error:  # also a number that is too long
        raise ValueError(f"{os.fspath(path)}: {error}") from error
    except RecursionError:
        raise ValueError(f"{os.fspath(path)}: got values nested too deeply, expected {what}") from None


def without_version(given: Mapping[str, Any], known: int, what: str) -> dict[str, Any]:
    """Return a document without its ``version``, which it may leave out. Raises ValueError if it is not ``known``."""
    version = given.get("version", known)
    if type(version) is not int or version != known:
        raise ValueError(f"{what} of version {version!r:.40}; this nnhal reads version {known}")
    return {name: value for name, value in given.items() if name != "version"}
