"""Tokens, an admin key and certificates for a testbed, made where there are none, with openssl.

They lie in three folders, so that each process is given what it needs and nothing else.
"""

from __future__ import annotations

import ipaddress
import secrets
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from nnhal.errors import NnhalError
from nnhal.given_files import MOST_TEXT_BYTES, read_given_file
from nnhal.whole_files import write_whole
from nnhal_hosting.admin_keys import new_admin_key

_BYTES = 32
ROLES = ("view", "infer", "admin")


@dataclass(frozen=True, slots=True)
class CredentialFolders:
    """Folders of credentials below a directory."""

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


_DAYS = "825"
"""The longest time for which browsers trust a server's certificate of a private authority."""
_SOON_SECONDS = 7 * 24 * 3600
_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_EXTENSIONS = """subjectAltName = {names}
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
authorityKeyIdentifier = keyid
"""


class CertificateError(NnhalError):
    """openssl is missing or has failed, or the certificate that is there ends soon."""


def make_certificate(folders: CredentialFolders, names: Sequence[str]) -> Iterator[Path]:
    """Make a certificate for host names and addresses unless there is one. Yields what was made.

    The key of its authority is not kept: nobody can make a second certificate that clients of this one trust.

    Raises CertificateError or OSError.
    """
    certificate, key = folders.servers / "server.pem", folders.servers / "server.key"
    if certificate.exists():
        _require_lasting(certificate)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        _make(folder, names)
        for path in (folders.clients / "ca.pem", key, certificate):
            write_whole(path, read_given_file(folder / path.name, MOST_TEXT_BYTES, "a certificate"))
            yield path


def _make(folder: Path, names: Sequence[str]) -> None:
    """Make ``ca.pem``, ``server.pem`` and ``server.key`` in a folder."""
    (folder / "extensions").write_text(_EXTENSIONS.format(names=", ".join(_alternative(name) for name in names)))
    authority = ("-subj", "/CN=nnhal testbed", "-addext", "keyUsage = critical, keyCertSign")
    _openssl(folder, "req", "-x509", *_NEW_KEY, *authority, "-days", _DAYS, "-keyout", "ca.key", "-out", "ca.pem")
    _openssl(folder, "req", *_NEW_KEY, "-subj", "/CN=nnhal", "-keyout", "server.key", "-out", "server.csr")
    issuer = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "extensions")
    _openssl(folder, "x509", "-req", *issuer, "-in", "server.csr", "-days", _DAYS, "-out", "server.pem")


def _alternative(name: str) -> str:
    """A name of the server, as a certificate has it."""
    try:
        return f"IP:{ipaddress.ip_address(name)}"
    except ValueError:
        return f"DNS:{name}"


def _require_lasting(certificate: Path) -> None:
    try:
        _openssl(certificate.parent, "x509", "-checkend", str(_SOON_SECONDS), "-noout", "-in", certificate.name)
    except CertificateError as error:
        raise CertificateError(f"{certificate}: expected a certificate that lasts for a week: {error}") from None


def _openssl(folder: Path, *words: str) -> None:
    try:
        done = subprocess.run(["openssl", *words], cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise CertificateError("openssl is missing, which makes certificates") from None
    if done.returncode:
        raise CertificateError(f"openssl {words[0]}: {(done.stderr or done.stdout).strip()}")


def token_path(folders: CredentialFolders, role: str) -> Path:
    """Path of a role's token."""
    return (folders.operators if role == "admin" else folders.clients) / f"{role}.token"


def make_tokens(folders: CredentialFolders) -> Iterator[Path]:
    """Make a token for each role, unless there is a file of tokens already. Yields what was made. Raises OSError."""
    digests = folders.servers / "tokens.toml"
    if digests.exists():
        return
    entries = []
    for role in ROLES:
        token = secrets.token_urlsafe(_BYTES)
        write_whole(token_path(folders, role), f"{token}\n".encode())
        yield token_path(folders, role)
        entries.append(
            f'[[token]]\nname = "{role}"\nrole = "{role}"\nsha256 = "{sha256(token.encode()).hexdigest()}"\n'
        )
    write_whole(digests, "\n".join(entries).encode())  # last: its presence says that the others are there
    yield digests


def make_admin_key(folders: CredentialFolders) -> Iterator[Path]:
    """Make the admin key unless there is one. Yields what was made. Raises OSError."""
    key = folders.operators / "admin.key"
    if not key.exists():
        write_whole(key, f"{new_admin_key()}\n".encode())
        yield key
