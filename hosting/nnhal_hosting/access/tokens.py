"""Bearer tokens: a TOML file with their names and roles.

[[token]]
name = "ci"
role = "infer"            # or "view" or "admin"
sha256 = "9f86d081…"      # of the token, so that the file alone grants no access
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from enum import IntEnum
from hashlib import sha256
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nnhal.errors import NnhalError
from nnhal.given_files import read_given_toml


class AccessRole(IntEnum):
    """Rights of a client; a higher role includes the lower ones."""

    NOBODY = 0
    """May ask whether the server is alive."""
    VIEW = 1
    """May also read everything, and changes nothing."""
    INFER = 2
    """May also run models and register memory for that."""
    ADMIN = 3
    """May also change what is served, traced and logged."""


class TokenFileError(NnhalError):
    """The token file cannot be read or is not valid."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A client by the name of its token, which is empty without one."""

    name: str
    role: AccessRole


class _TokenEntry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    role: Literal["view", "infer", "admin"]
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class _TokenFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    token: tuple[_TokenEntry, ...] = Field(min_length=1)


class Tokens:
    """The known tokens."""

    def __init__(self, identities: dict[bytes, Identity]) -> None:
        """``identities`` are by the SHA-256 of each token."""
        self._identities = identities

    def identity(self, authorization: str) -> Identity | None:
        """Return the identity of an Authorization header, None if unknown. Takes equally long for every token."""
        scheme, _, token = authorization.partition(" ")
        digest = sha256(token.strip().encode("utf-8", "surrogateescape")).digest()
        found = None
        for known, identity in self._identities.items():
            if hmac.compare_digest(known, digest):
                found = identity
        return found if scheme.lower() == "bearer" else None


def read_tokens(path: Path) -> Tokens:
    """Read the tokens of a file. Raises TokenFileError, which says what is wrong and where but never shows a token."""
    try:
        file = _TokenFile.model_validate(read_given_toml(path, "tokens"))
    except OSError as error:
        raise TokenFileError(f"{path}: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise TokenFileError(f"{path}: {where}: {first['msg']}") from error
    except ValueError as error:
        raise TokenFileError(str(error)) from error
    return Tokens(
        {bytes.fromhex(entry.sha256): Identity(entry.name, AccessRole[entry.role.upper()]) for entry in file.token}
    )
