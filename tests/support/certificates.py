"""Certificates made with openssl."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

_DAYS = "2"


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, in PEM files."""

    certificate: Path
    key: Path


def authority(folder: Path, name: str) -> Pair:
    made = _pair(folder, name)
    _openssl("req", "-x509", *_new(made), "-subj", f"/CN={name}", "-days", _DAYS, "-out", str(made.certificate))
    return made


def signed(folder: Path, name: str, by: Pair, days: str = _DAYS) -> Pair:
    """Make a certificate for ``localhost`` and 127.0.0.1, signed by an authority, valid for some days from now on."""
    made = _pair(folder, name)
    request, extensions = folder / f"{name}.csr", folder / f"{name}.ext"
    extensions.write_text("subjectAltName = DNS:localhost, IP:127.0.0.1\n")
    _openssl("req", *_new(made), "-subj", f"/CN={name}", "-out", str(request))
    issuer = ("-CA", str(by.certificate), "-CAkey", str(by.key), "-CAcreateserial")
    asked = ("-in", str(request), "-extfile", str(extensions), "-days", days)
    _openssl("x509", "-req", *asked, *issuer, "-out", str(made.certificate))
    return made


def _pair(folder: Path, name: str) -> Pair:
    return Pair(folder / f"{name}.pem", folder / f"{name}.key")


def _new(pair: Pair) -> tuple[str, ...]:
    return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", str(pair.key))


def _openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)
