"""Finding backend files. What is wrong with a directory or a file is a warning in the log, and the rest is found."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from nnhal_devices.dynamic.naming import BackendName, looks_meant, parse
from nnhal_hosting.logs import get_logger

_log = get_logger(__name__)


class BackendFile(NamedTuple):
    """A file by its canonical path, and what its name says."""

    path: Path
    name: BackendName


def find_backend_files(directories: Iterable[Path]) -> list[BackendFile]:
    """The files of all directories in order, by name within one. What is found again, through a link, is left out."""
    found: dict[Path, BackendFile] = {}
    for directory in directories:
        for entry, name in _candidates(directory):
            path = _canonical(entry)
            if path is not None and path not in found:
                # A link's target says itself which module it holds, unless it is called otherwise.
                found[path] = BackendFile(path, parse(path.name) or name)
    return list(found.values())


def _candidates(directory: Path) -> Iterator[tuple[Path, BackendName]]:
    """The entries of one directory whose names keep the rule."""
    if not directory.is_absolute():
        _log.warning("a backend directory is skipped", directory=str(directory), reason="the path is not absolute")
        return
    try:
        entries = sorted(entry.name for entry in directory.iterdir())
    except OSError as error:
        _log.warning("a backend directory is skipped", directory=str(directory), reason=_words(error))
        return
    for entry in entries:
        name = parse(entry)
        if name is not None:
            yield directory / entry, name
        elif looks_meant(entry):
            expected = "expected <vendor>_<name>_backend.so or .py, letters and digits in both, and .1.2 for a version"
            _skip(directory / entry, f"the name is none of a backend file: {expected}")


def _canonical(entry: Path) -> Path | None:
    """Where a file really is; None, and a warning, where there is none."""
    try:
        path = Path(os.path.realpath(entry, strict=True))
        regular = path.is_file()
    except OSError as error:
        _skip(entry, _words(error))
        return None
    if not regular:
        _skip(entry, "no regular file")
        return None
    return path


def _skip(entry: Path, reason: str) -> None:
    _log.warning("a backend file is skipped", file=str(entry), reason=reason)


def _words(error: OSError) -> str:
    return error.strerror or str(error)
