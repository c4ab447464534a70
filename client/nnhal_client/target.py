"""What a client is told to connect to: a directory, or the address of a server of the protocol."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import grpc

_ADDRESS = re.compile(r"(?:grpc://)?(?P<address>[^/\s]+:\d+)/?|(?P<socket>unix:.+)")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


@dataclass(frozen=True, slots=True)
class Server:
    """A server of the protocol, over gRPC."""

    address: str
    credentials: grpc.ChannelCredentials | None = None


def target_of(target: str | os.PathLike[str], credentials: grpc.ChannelCredentials | None = None) -> Path | Server:
    """The directory of a framework, or a server: ``HOST:PORT``, ``grpc://HOST:PORT``, ``grpcs://HOST:PORT`` or
    ``unix:PATH``. With ``grpcs`` or ``credentials`` it speaks TLS. Raises ValueError for any other address.
    """
    if not isinstance(target, str):
        return Path(target)
    text = target
    if text.startswith("grpcs://"):
        credentials = credentials or grpc.ssl_channel_credentials()
        text = "grpc://" + text.removeprefix("grpcs://")
    found = _ADDRESS.fullmatch(text)
    if found and not Path(target).is_dir():
        return Server(found["address"] or found["socket"], credentials)
    if _SCHEME.match(text):
        raise ValueError(f"got {target!r}, expected a directory, HOST:PORT, grpc://HOST:PORT or grpcs://HOST:PORT")
    return Path(target)
