"""The files that are shown to a device on another host: what is not of a credential's form is never sent there."""

from __future__ import annotations

import re
from pathlib import Path

from nnhal.given_files import read_given_file

_LONGEST_TOKEN = 4096
_LONGEST_PEM = 1 << 20
_TOKEN = re.compile(rb"[\x21-\x7e]{1,4096}")
_PEM = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----\r?\n[A-Za-z0-9+/=\r\n]+-----END \1-----")


def token_of(path: Path) -> str:
    """Return the token that a file holds. Raises OSError if it cannot be read, ValueError if it holds another thing."""
    token = read_given_file(path, _LONGEST_TOKEN + 2, "a token").strip()  # with the end of its line
    if not _TOKEN.fullmatch(token):
        raise ValueError(
            f"{path} holds no token, expected one line of 1 to {_LONGEST_TOKEN} printable characters without a space"
        )
    return token.decode()


def pem_of(path: Path | None) -> bytes | None:
    """Return the certificates or the key of a file in PEM form; None without a file. Raises as ``token_of``."""
    if path is None:
        return None
    content = read_given_file(path, _LONGEST_PEM, "certificates or a key in PEM form")
    if not _PEM.search(content):
        raise ValueError(f"{path} is not in PEM form, expected '-----BEGIN …-----' and what belongs to it")
    return content
