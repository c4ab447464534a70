"""Tokens of the three roles, the file of their digests, and the admin key."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from nnhal_hosting.admin_keys import new_admin_key
from nnhal_tools.credentials.folders import CredentialFolders, write_private

_BYTES = 32
ROLES = ("view", "infer", "admin")


def token_path(folders: CredentialFolders, role: str) -> Path:
    """Where the token of a role lies."""
    return (folders.operators if role == "admin" else folders.clients) / f"{role}.token"


def make_tokens(folders: CredentialFolders) -> Iterator[Path]:
    """Make a token for each role, unless there is a file of tokens already. Yields what was made. Raises OSError."""
    digests = folders.servers / "tokens.toml"
    if digests.exists():
        return
    entries = []
    for role in ROLES:
        token = secrets.token_urlsafe(_BYTES)
        write_private(token_path(folders, role), f"{token}\n")
        yield token_path(folders, role)
        entries.append(
            f'[[token]]\nname = "{role}"\nrole = "{role}"\nsha256 = "{sha256(token.encode()).hexdigest()}"\n'
        )
    write_private(digests, "\n".join(entries))  # last: its presence says that the others are there
    yield digests


def make_admin_key(folders: CredentialFolders) -> Iterator[Path]:
    """Make the admin key unless there is one. Yields what was made. Raises OSError."""
    key = folders.operators / "admin.key"
    if not key.exists():
        write_private(key, f"{new_admin_key()}\n")
        yield key
