"""How a server of the protocol tells a client on its own host where the native service is.

The client sends the id of its host's boot as gRPC metadata with ServerMetadata; a server that knows the same id, and
sees the client come by a unix socket or the loopback interface, answers with its directory as trailing metadata. The id
is known on the host alone: who comes through a proxy from elsewhere learns nothing.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote

BOOT_ID = "nnhal-boot-id"
"""The key of what the client sends."""
NATIVE_DIRECTORY = "nnhal-native-directory"
"""The key of what the server answers."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """The id of this host's boot; empty where the system has none."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


def is_on_this_host(peer: str, metadata: Iterable[tuple[str, str | bytes]]) -> bool:
    """Whether a caller, by gRPC's name of its address and its metadata, is a process of this host."""
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
