"""Bearer tokens: a TOML file that names them, with their roles.

[[token]]
name = "ci"
role = "infer"            # or "admin"
sha256 = "9f86d081…"      # of the token, so that the file alone lets nobody in
"""

from __future__ import annotations

import hmac
import tomllib
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nnhal.errors import NnhalError
from nnhal_service.access.roles import Role


class TokenFileError(NnhalError):
    """A token file that cannot be read, or says what it may not say."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a client is, by the name of its token; empty without one."""

    name: str
    role: Role


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    role: Literal["infer", "admin"]
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    token: tuple[_Entry, ...] = Field(min_length=1)


class Tokens:
    """The tokens that are known."""

    def __init__(self, identities: dict[bytes, Identity]) -> None:
        """By the SHA-256 of each token."""
        self._identities = identities

    def identity(self, authorization: str) -> Identity | None:
        """Whose an Authorization header is, None where it is nobody's. Takes as long whichever token is tried."""
        scheme, _, token = authorization.partition(" ")
        digest = sha256(token.strip().encode("utf-8", "surrogateescape")).digest()
        found = None
        for known, identity in self._identities.items():
            if hmac.compare_digest(known, digest):
                found = identity
        return found if scheme.lower() == "bearer" else None


def read_tokens(path: Path) -> Tokens:
    """The tokens of a file. Raises TokenFileError with what is wrong and where; never with a token."""
    try:
        file = _File.model_validate(tomllib.loads(path.read_text()))
    except OSError as error:
        raise TokenFileError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TokenFileError(f"{path}: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise TokenFileError(f"{path}: {where}: {first['msg']}") from error
    roles = {"infer": Role.INFER, "admin": Role.ADMIN}
    return Tokens({bytes.fromhex(entry.sha256): Identity(entry.name, roles[entry.role]) for entry in file.token})
