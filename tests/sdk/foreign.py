"""Processes of a device that is not nnhal's, under the protocol of supervision."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from nnhal.endpoint import Endpoint

ADMIN_KEY = "a-key-of-the-tests"
_START_SECONDS = 30
_END_SECONDS = 20


class DeviceProgram(NamedTuple):
    """A program that serves a device."""

    path: Path

    def command(self, directory: Path) -> list[str]:
        """The words that start it."""
        return [str(self.path), "--endpoint", str(directory)]


class DeviceProcess(NamedTuple):
    """One that serves."""

    process: subprocess.Popen[bytes]
    endpoint: Endpoint
    supervision: socket.socket
    """The supervisor's end."""


@contextmanager
def running(program: DeviceProgram, directory: Path, *options: str) -> Iterator[DeviceProcess]:
    """Run a device under ``directory`` until the context ends; its admin key is ADMIN_KEY."""
    endpoint = Endpoint(directory / "foreign")
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            ours.sendall(f"{ADMIN_KEY}\n".encode())
            process = subprocess.Popen(
                [*program.command(endpoint.directory), *options],
                pass_fds=[theirs.fileno()],
                env={**os.environ, "NNHAL_SUPERVISOR": str(theirs.fileno()), "WATCHDOG_USEC": "400000"},
            )
        try:
            ours.settimeout(_START_SECONDS)
            assert ours.recv(1) == b"R", "the device ended before it served"
            yield DeviceProcess(process, endpoint, ours)
        finally:
            if process.poll() is None:
                process.terminate()
            process.wait(_END_SECONDS)
