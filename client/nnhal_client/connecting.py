"""Connecting: without copies if the server is on this host, else with bytes."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import grpc

from nnhal.errors import NnhalError
from nnhal.inference.native import BOOT_ID, NATIVE_DIRECTORY, boot_id
from nnhal_client.core.model_runs import CONCURRENCY
from nnhal_client.framework import Framework
from nnhal_client.v2 import V2Server

_ADDRESS = re.compile(r"(?:grpc://)?(?P<address>[^/\s]+:\d+)/?|(?P<socket>unix:.+)")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The address of a server of the protocol, over gRPC."""

    address: str
    credentials: grpc.ChannelCredentials | None = None


@overload
def connect(target: os.PathLike[str], *, concurrency: int = CONCURRENCY) -> Framework: ...


@overload
def connect(
    target: str,
    *,
    token: str = "",
    credentials: grpc.ChannelCredentials | None = None,
    native: bool = True,
    concurrency: int = CONCURRENCY,
) -> Framework | V2Server: ...


def connect(
    target: str | os.PathLike[str],
    *,
    token: str = "",
    credentials: grpc.ChannelCredentials | None = None,
    native: bool = True,
    concurrency: int = CONCURRENCY,
) -> Framework | V2Server:
    """A session with a server. ``target`` is the directory of a framework on this host, or the address of a server of
    the Open Inference Protocol V2: ``HOST:PORT``, ``grpc://HOST:PORT``, ``grpcs://HOST:PORT`` with TLS, ``unix:PATH``.

    If a server at an address turns out to be on this host, and says where its directory is, the session is with that,
    and no tensor is copied into a message; not with ``native`` False. ``token`` is a bearer token for the server. Of
    each model at most ``concurrency`` runs are under way at a time; others wait.

    Raises DeadObjectError if no framework serves at the directory; HalError or TransportError if no server answers at
    the address; ValueError if the target is neither, or if ``concurrency`` is below 1.
    """
    if concurrency < 1:
        raise ValueError(f"concurrency is {concurrency}, expected 1 or more")
    found = target_of(target, credentials)
    if isinstance(found, Path):
        return Framework(found, concurrency)
    own = boot_id() if native else ""
    server = V2Server(found.address, token, found.credentials, ((BOOT_ID, own),) if own else (), concurrency)
    framework = _native_beside(server, concurrency)
    if framework is None:
        return server
    server.close()
    return framework


def target_of(
    target: str | os.PathLike[str], credentials: grpc.ChannelCredentials | None = None
) -> Path | ServerAddress:
    """The directory of a framework, or the address of a server: ``HOST:PORT``, ``grpc://HOST:PORT``,
    ``grpcs://HOST:PORT`` or ``unix:PATH``. With ``grpcs`` or ``credentials`` it speaks TLS. Raises ValueError for any
    other address.
    """
    if not isinstance(target, str):
        return Path(target)
    text = target
    if text.startswith("grpcs://"):
        credentials = credentials or grpc.ssl_channel_credentials()
        text = "grpc://" + text.removeprefix("grpcs://")
    found = _ADDRESS.fullmatch(text)
    if found and not Path(target).is_dir():
        return ServerAddress(found["address"] or found["socket"], credentials)
    if _SCHEME.match(text):
        raise ValueError(f"got {target!r}, expected a directory, HOST:PORT, grpc://HOST:PORT or grpcs://HOST:PORT")
    return Path(target)


def _native_beside(server: V2Server, concurrency: int) -> Framework | None:
    """A session with the framework behind a server; None if it is not on this host or does not let this user in."""
    directory = server.answered.get(NATIVE_DIRECTORY)
    if not directory:
        return None
    try:
        return Framework(directory, concurrency)
    except (NnhalError, OSError):
        return None
