"""The names of backend files: ``<vendor>_<name>_backend.so`` or ``.py``, with or without a version such as ``.1.2``."""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

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


def parse(file_name: str) -> BackendName | None:
    """Parse a file name. Returns None if it is not that of a backend file."""
    match = _RULE.fullmatch(file_name)
    return BackendName(match["module"], BackendFileKind(match["kind"])) if match else None


def looks_meant(file_name: str) -> bool:
    """Whether a name may be a misspelt name of a backend file."""
    return _MARK in file_name
