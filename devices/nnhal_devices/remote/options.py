"""The options of the driver: where the device is, and what to show there."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

from nnhal_devices.driver import DriverOptions
from nnhal_hosting.access import TcpListener

_SCHEME = "tcp://"
_FILES = ("token_file", "tls_ca", "tls_certificate", "tls_key")
_NAMES = ("endpoint", *_FILES, "tls_name", "insecure", "name", "patience")
_PATIENCE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class RemoteOptions:
    """Address of the device, and its name here. Files are in PEM form."""

    address: TcpListener
    """Where it listens."""
    token_file: Path | None = None
    """A file with the token, and nothing else."""
    tls_ca: Path | None = None
    """The authority that has signed its certificate; with TLS and without it, those that the system trusts."""
    tls_certificate: Path | None = None
    """This host's own certificate, if the device asks for one."""
    tls_key: Path | None = None
    """Its key."""
    tls_name: str = ""
    """The name in the device's certificate, if that is not its host's."""
    uses_tls: bool = False
    """True if the connection is encrypted."""
    name: str = ""
    """What the device knows of who uses it."""
    patience: float = _PATIENCE_SECONDS
    """Seconds to wait for the device at the start."""

    @property
    def place(self) -> str:
        """The device's address, for messages."""
        return f"{_SCHEME}{self.address.address}"

    @classmethod
    def of(cls, options: DriverOptions) -> RemoteOptions:
        """Read the options of the driver. Raises ValueError if they are wrong or not safe."""
        options.require_known("remote", *_NAMES)
        given = options.extra
        address = _address(given.get("endpoint", ""))
        files = {name: Path(given[name]) for name in _FILES if name in given}
        if ("tls_certificate" in files) != ("tls_key" in files):
            raise ValueError("remote: tls_certificate and tls_key go together, got only one of them")
        insecure = _truth("insecure", given.get("insecure", "false"))
        asks_for_tls = any(name.startswith("tls_") for name in given)
        if insecure and asks_for_tls:
            raise ValueError("remote: insecure=true contradicts the options of TLS; expected one of both")
        uses_tls = asks_for_tls or not (insecure or address.is_loopback)
        name = given.get("name", "") or socket.gethostname()
        return cls(
            address,
            **files,
            tls_name=given.get("tls_name", ""),
            uses_tls=uses_tls,
            name=name,
            patience=_seconds(given.get("patience", str(_PATIENCE_SECONDS))),
        )


def _address(endpoint: str) -> TcpListener:
    address = TcpListener.parse(endpoint.removeprefix(_SCHEME)) if endpoint.startswith(_SCHEME) else None
    if address is None:
        raise ValueError(f"remote has endpoint {endpoint!r}, expected --option endpoint=tcp://HOST:PORT")
    return address


def _truth(name: str, text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(f"remote has {name} {text!r}, expected true or false")
    return text == "true"


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= 3600:
        raise ValueError(f"remote has patience {text!r}, expected seconds, above 0 and at most 3600")
    return seconds
