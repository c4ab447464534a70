"""A certificate for servers and the authority that vouches for it, made with openssl."""

from __future__ import annotations

import ipaddress
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from nnhal.errors import NnhalError
from nnhal_tools.credentials.folders import CredentialFolders, write_private

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
            write_private(path, (folder / path.name).read_text())
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
