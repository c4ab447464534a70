"""The folders of credentials, and how their files are written."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class CredentialFolders:
    """Where credentials lie below a directory."""

    directory: Path

    @property
    def operators(self) -> Path:
        """For who may do everything: the admin key of processes, and the token of the role admin."""
        return self.directory / "operators"

    @property
    def servers(self) -> Path:
        """For what serves TCP: the digests of the tokens, the certificate and its key."""
        return self.directory / "servers"

    @property
    def clients(self) -> Path:
        """For who runs models or looks: tokens of the roles infer and view, and the authority of the certificate."""
        return self.directory / "clients"

    def create(self) -> None:
        """Make the folders, for this user only. Raises OSError."""
        for folder in (self.operators, self.servers, self.clients):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def write_private(path: Path, content: str) -> None:
    """Write a file that only its user reads, whole or not at all. Raises OSError."""
    number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # with mode 0600
    temporary = Path(name)
    try:
        with os.fdopen(number, "w") as file:
            file.write(content)
        temporary.replace(path)
    except BaseException:
        temporary.unlink()
        raise
