"""How backend files are called: ``<vendor>_<name>_backend.so`` or ``.py``, and a version such as ``.1.2`` or none."""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

_MARK = "_backend"
_RULE = re.compile(rf"(?P<module>[A-Za-z0-9]+_[A-Za-z0-9]+{_MARK})\.(?P<kind>so|py)(\.[0-9]+)*")


class BackendFileKind(Enum):
    """What a backend file holds."""

    EXTENSION = "so"
    SOURCE = "py"


class BackendName(NamedTuple):
    """What a file name says: the module inside, which has neither kind nor version in its name, and its kind."""

    module: str
    kind: BackendFileKind


def parse(file_name: str) -> BackendName | None:
    """What the name says, None where it breaks the rule."""
    match = _RULE.fullmatch(file_name)
    return BackendName(match["module"], BackendFileKind(match["kind"])) if match else None


def looks_meant(file_name: str) -> bool:
    """Whether somebody may have meant a backend by the name."""
    return _MARK in file_name
