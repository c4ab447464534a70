"""Admin keys: making one, reading one from a file, and telling whether a text is one."""

from __future__ import annotations

import hmac
import os
import secrets
import stat
from collections.abc import Collection
from pathlib import Path

from nnhal.given_files import open_given_file

_MODES = (0o600, 0o400)
_SHORTEST, _LONGEST = 16, 256
"""Characters of a key."""


def new_admin_key() -> str:
    return secrets.token_hex(32)


def is_admin_key(given: str, keys: Collection[str]) -> bool:
    """Return whether a text is one of the keys. How long that takes does not tell how much of it is right."""
    return any(hmac.compare_digest(given.encode(), key.encode()) for key in keys)


def checked_admin_key(text: str) -> str:
    """Return a key that metadata can carry. Raises ValueError, whose message does not show it."""
    if not _SHORTEST <= len(text) <= _LONGEST or not all("!" <= character <= "~" for character in text):
        raise ValueError(
            f"an admin key of {len(text)} characters; expected {_SHORTEST} to {_LONGEST} printable ones of ASCII "
            "without blanks"
        )
    return text


def read_admin_key(path: Path) -> str:
    """Return the key that a file of this process's own user holds, and that nobody else may read or write.

    White space around it is ignored. Raises OSError, or ValueError if the file is not as expected.
    """
    with open_given_file(path, "an admin key") as file:
        status = os.fstat(file.fileno())
        own = os.geteuid()
        if status.st_uid != own:
            raise ValueError(f"{path}: a file of user {status.st_uid}, expected one of the process's user, {own}")
        mode = stat.S_IMODE(status.st_mode)
        if mode not in _MODES:
            raise ValueError(f"{path}: mode {mode:04o}, expected {' or '.join(f'{m:04o}' for m in _MODES)}")
        content = file.read(2 * _LONGEST)
    try:
        return checked_admin_key(content.decode("ascii", errors="replace").strip())
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
