"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_whole(path: Path, content: bytes, mode: int = 0o600, writer: str = "") -> None:
    """Write a file, or replace one: whoever reads it finds the old content or the new one, and no part of either.

    A new file has ``mode``, less what the umask takes. ``writer`` names one of those who write it, who then writes
    over the draft that it left when it was killed; without a name any number may write at once. Raises OSError, and
    leaves no draft then.
    """
    draft = path.with_name(f".{path.name}.{writer or secrets.token_hex(8)}")
    if writer:
        draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
