"""Names that clients give: of models, versions and files."""

from __future__ import annotations

from nnhal_service.serving.errors import ErrorKind, ServingError

_MAX_BYTES = 255
"""The longest file name that a file system takes."""


def require_model_name(name: str) -> str:
    """Return the name of a model. Raises INVALID_ARGUMENT if it cannot be the name of its folder."""
    if not is_file_name(name):
        raise ServingError(
            ErrorKind.INVALID_ARGUMENT,
            f"model name {name!r}: expected 1 to {_MAX_BYTES} bytes without '/' and NUL, that do not begin with '.'",
        )
    return name


def is_file_name(name: str) -> bool:
    """Say whether a name stays in its folder and is not hidden."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return False
    return 0 < size <= _MAX_BYTES and not name.startswith(".") and not {"/", "\0"} & set(name)


def is_version(name: str) -> bool:
    """Say whether a folder is that of a version: a positive decimal number without leading zeros."""
    return name.isascii() and name.isdecimal() and not name.startswith("0") and len(name) < 19


def version_of(text: str) -> int | None:
    """Parse a version as clients give it; None means the newest. Raises INVALID_ARGUMENT."""
    if not text:
        return None
    if not is_version(text):
        raise ServingError(ErrorKind.INVALID_ARGUMENT, f"model version {text!r}: expected a positive number, or none")
    return int(text)
