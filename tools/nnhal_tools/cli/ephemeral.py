"""A testbed for as long as one command runs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from nnhal_client.framework import Framework, connect
from nnhal_tools.up import Testbed, Topology


@contextmanager
def ephemeral_testbed(topology: Topology, console: Console) -> Iterator[tuple[Testbed, Framework]]:
    """Start a testbed, and open a session with its framework; both end with the context. Raises StartError."""
    with tempfile.TemporaryDirectory(prefix="nnhal-") as directory:
        names = ", ".join(entry.title for entry in topology.device)
        with console.status(f"starting {names} and the framework"):
            testbed = Testbed(topology, Path(directory))
            testbed.__enter__()
        try:
            with connect(testbed.framework) as framework:
                yield testbed, framework
        finally:
            testbed.__exit__(None, None, None)


@contextmanager
def ephemeral_framework(topology: Topology, console: Console) -> Iterator[Framework]:
    """Open a session with the framework of a new testbed, which ends with the context. Raises StartError."""
    with ephemeral_testbed(topology, console) as (_, framework):
        yield framework
