"""The address of a process of nnhal: a directory with a gRPC socket and a link socket."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_MAX_PATH_BYTES = 107
"""The longest path that fits sockaddr_un, without the terminating zero."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One process's directory. ``service``, device or framework, is the gRPC socket's name."""

    directory: Path
    service: str = "device"

    @property
    def rpc(self) -> Path:
        """The path of the gRPC socket."""
        return self.directory / f"{self.service}.sock"

    @property
    def link(self) -> Path:
        """The path of the link socket."""
        return self.directory / "link.sock"

    @property
    def address(self) -> str:
        """The address of the gRPC socket, as gRPC writes it."""
        return f"unix:{self.rpc}"

    def create(self) -> None:
        """Make the directory, for this user only. Raises OSError, or ValueError if its path cannot be a socket's."""
        length = len(str(self.rpc).encode())
        if length > _MAX_PATH_BYTES:
            raise ValueError(f"{self.rpc} has {length} bytes, a socket's path may have {_MAX_PATH_BYTES}")
        if "," in str(self.rpc):
            raise ValueError(
                f"{self.rpc} has a comma, at which gRPC would end the path: expected a directory without one"
            )
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
