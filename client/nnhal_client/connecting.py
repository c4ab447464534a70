"""Connecting: without copies where the server is on this host, else with bytes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import overload

import grpc

from nnhal.errors import NnhalError
from nnhal.inference.native import BOOT_ID, NATIVE_DIRECTORY, boot_id
from nnhal_client.framework import Framework
from nnhal_client.target import target_of
from nnhal_client.v2 import V2Server


@overload
def connect(target: os.PathLike[str]) -> Framework: ...


@overload
def connect(
    target: str, *, token: str = "", credentials: grpc.ChannelCredentials | None = None, native: bool = True
) -> Framework | V2Server: ...


def connect(
    target: str | os.PathLike[str],
    *,
    token: str = "",
    credentials: grpc.ChannelCredentials | None = None,
    native: bool = True,
) -> Framework | V2Server:
    """A session with a server. ``target`` is the directory of a framework on this host, or the address of a server of
    the Open Inference Protocol V2: ``HOST:PORT``, ``grpc://HOST:PORT``, ``grpcs://HOST:PORT`` with TLS, ``unix:PATH``.

    Where a server at an address turns out to be on this host, and says where its directory is, the session is with
    that, and no tensor is copied into a message; not with ``native`` False. ``token`` is a bearer token for the server.

    Raises DeadObjectError where no framework serves at the directory; HalError or TransportError where no server
    answers at the address; ValueError for what is neither.
    """
    found = target_of(target, credentials)
    if isinstance(found, Path):
        return Framework(found)
    own = boot_id() if native else ""
    server = V2Server(found.address, token, found.credentials, ((BOOT_ID, own),) if own else ())
    framework = native_beside(server)
    if framework is None:
        return server
    server.close()
    return framework


def native_beside(server: V2Server) -> Framework | None:
    """A session with the framework behind a server; None where it is not on this host, or lets nobody in."""
    directory = server.answered.get(NATIVE_DIRECTORY)
    if not directory:
        return None
    try:
        return Framework(directory)
    except (NnhalError, OSError):
        return None
