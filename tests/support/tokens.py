"""Files of tokens."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path


def token_file(folder: Path, **roles: str) -> Path:
    """A file of tokens that are called as their names say: ``ci`` has the token ``ci-token``."""
    entries = [
        f'[[token]]\nname = "{name}"\nrole = "{role}"\nsha256 = "{sha256(f"{name}-token".encode()).hexdigest()}"\n'
        for name, role in roles.items()
    ]
    path = folder / "tokens.toml"
    path.write_text("".join(entries))
    return path


def bearer(name: str) -> dict[str, str]:
    """The header of a token, or its metadata."""
    key = "authorization"
    return {key: f"Bearer {name}-token"}
