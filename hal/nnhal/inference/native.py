"""Discovery of the native service of a server on the same host.

The client sends the id of its host's boot as gRPC metadata with ServerMetadata. A server that has the same id, and is
reached over a unix socket or the loopback interface, answers with its directory as trailing metadata. Only processes of
the host know the id: a client that comes from elsewhere through a proxy learns nothing.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote

BOOT_ID = "nnhal-boot-id"
"""The metadata key of the boot id that the client sends."""
NATIVE_DIRECTORY = "nnhal-native-directory"
"""The metadata key of the directory that the server answers."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Return the id of this host's boot; empty if the system has none."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


def is_on_this_host(peer: str, metadata: Iterable[tuple[str, str | bytes]]) -> bool:
    """Return whether a caller, given its address as gRPC writes it and its metadata, is a process of this host."""
    own = boot_id()
    given = next((str(value) for key, value in metadata if key == BOOT_ID), "")
    return bool(own) and hmac.compare_digest(own.encode(), given.encode()) and _is_local(peer)


def _is_local(peer: str) -> bool:
    family, _, rest = peer.partition(":")
    if family == "unix":
        return True
    host = unquote(rest).rpartition(":")[0].strip("[]")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return family in ("ipv4", "ipv6") and (mapped or address).is_loopback
