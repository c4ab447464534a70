"""Finding backend files by name. A problem with a directory or a file is logged as a warning, and the rest is found.

What is found is executed. So nobody but root and the user of this process may be able to change it.
"""

from __future__ import annotations

import os
import re
import struct
import sys
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from nnhal.given_files import open_given_file
from nnhal.private_folders import require_trusted_file, require_trusted_folder
from nnhal_hosting.logs import get_logger

_log = get_logger(__name__)
_IDENT = b"\x7fELF\x02" + (b"\x01" if sys.byteorder == "little" else b"\x02")
_HEADER = struct.Struct("=16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("=IIQQQQQQ")
_LOADED = 1  # PT_LOAD
_MARK = "_backend"
_RULE = re.compile(rf"(?P<module>[A-Za-z0-9]+_[A-Za-z0-9]+{_MARK})\.(?P<kind>so|py)(\.[0-9]+)*")


class BackendFileKind(Enum):
    """The kind of code in a backend file."""

    EXTENSION = "so"
    SOURCE = "py"


class BackendName(NamedTuple):
    """A parsed file name: the module's name, which has neither kind nor version, and its kind."""

    module: str
    kind: BackendFileKind


def parse_name(file_name: str) -> BackendName | None:
    """Parse a file name. Returns None if it is not that of a backend file."""
    match = _RULE.fullmatch(file_name)
    return BackendName(match["module"], BackendFileKind(match["kind"])) if match else None


def looks_meant(file_name: str) -> bool:
    """Return whether a name may be a misspelt name of a backend file."""
    return _MARK in file_name


def missing_bytes(path: Path) -> int:
    """Return how many bytes of a 64-bit ELF file's segments lie past its end.

    0 if it is no ELF file, or its header is incomplete: the linker refuses those itself. Raises as ``open_given_file``.
    """
    with open_given_file(path, "a shared object") as file:
        header = file.read(_HEADER.size)
        if len(header) < _HEADER.size or not header.startswith(_IDENT):
            return 0
        *_, table, _, _, _, entry_size, entries, _, _, _ = _HEADER.unpack(header)
        file.seek(table)
        segments = file.read(entry_size * entries)
        size = file.seek(0, 2)
    if entry_size != _SEGMENT.size or len(segments) < entry_size * entries:
        return 0
    ends = [
        offset + length for kind, _, offset, _, _, length, _, _ in _SEGMENT.iter_unpack(segments) if kind == _LOADED
    ]
    return max(0, max(ends, default=0) - size)


class BackendFile(NamedTuple):
    """A backend file: its canonical path, and its parsed name."""

    path: Path
    name: BackendName


def find_backend_files(directories: Iterable[Path]) -> list[BackendFile]:
    """The backend files of all directories in order, by name within one. A file that links lead to is listed once."""
    found: dict[Path, BackendFile] = {}
    for directory in directories:
        for entry, name in _candidates(directory):
            path = _canonical(entry)
            if path is not None and path not in found:
                # The name of a link's target says which module it holds, unless it breaks the rule.
                found[path] = BackendFile(path, parse_name(path.name) or name)
    return list(found.values())


def _candidates(directory: Path) -> Iterator[tuple[Path, BackendName]]:
    """The entries of one directory whose names are those of backend files."""
    if not directory.is_absolute():
        _log.warning("a backend directory is skipped", directory=str(directory), reason="the path is not absolute")
        return
    try:
        require_trusted_folder(directory, {os.geteuid()})
        entries = sorted(entry.name for entry in directory.iterdir())
    except (OSError, ValueError) as error:
        _log.warning("a backend directory is skipped", directory=str(directory), reason=_words(error))
        return
    for entry in entries:
        name = parse_name(entry)
        if name is not None:
            yield directory / entry, name
        elif looks_meant(entry):
            expected = "expected <vendor>_<name>_backend.so or .py, letters and digits in both, and .1.2 for a version"
            _skip(directory / entry, f"it is not the name of a backend file: {expected}")


def _canonical(entry: Path) -> Path | None:
    """Resolve a file's path. Returns None, and logs a warning, if there is no regular file."""
    try:
        path = Path(os.path.realpath(entry, strict=True))
        if not path.is_file():
            raise ValueError("no regular file")
        require_trusted_file(path, {os.geteuid()})
    except (OSError, ValueError) as error:
        _skip(entry, _words(error))
        return None
    return path


def _skip(entry: Path, reason: str) -> None:
    _log.warning("a backend file is skipped", file=str(entry), reason=reason)


def _words(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or str(error)
