"""Token files, and the headers of tokens."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path


def token_file(folder: Path, **roles: str) -> Path:
    """Write a file of tokens: the name ``ci`` gets the token ``ci-token``, and so on."""
    entries = [
        f'[[token]]\nname = "{name}"\nrole = "{role}"\nsha256 = "{sha256(f"{name}-token".encode()).hexdigest()}"\n'
        for name, role in roles.items()
    ]
    path = folder / "tokens.toml"
    path.write_text("".join(entries))
    return path


def bearer(name: str) -> dict[str, str]:
    key = "authorization"
    return {key: f"Bearer {name}-token"}
