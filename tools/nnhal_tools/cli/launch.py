"""Programs that come in by a door of theirs: they run over a framework, which is started if none runs."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import typer

from nnhal.endpoint import Endpoint, default_directory
from nnhal_hosting.nonblocking_stderr import STDERR

_FRAMEWORK = "NNHAL_FRAMEWORK"


def found_program(word: str) -> str:
    """Return the path of a program. Raises BadParameter if there is none of that name."""
    path = shutil.which(word)
    if path is None:
        raise typer.BadParameter(f"there is no program {word!r}")
    return path


def launch(program: Sequence[str], variables: Mapping[str, str], framework: Path | None = None) -> NoReturn:
    """Run a program with these variables, and end as it ends.

    Its framework is the given one, that of NNHAL_FRAMEWORK, or that of the "nnhal up" that runs; else the devices of
    "nnhal up" are started, and end with the program. Raises BadParameter without the program, StartError.
    """
    path = found_program(program[0])
    environment = {**os.environ, **variables}
    directory = environment.get(_FRAMEWORK) if framework is None else str(framework.resolve())
    running = default_directory() / "framework"
    if directory or _listens(Endpoint(running)):
        os.execve(path, list(program), {**environment, _FRAMEWORK: directory or str(running)})
    from nnhal_tools.up import DEFAULT_TOPOLOGY, Testbed

    STDERR.write(f"starting {', '.join(entry.title for entry in DEFAULT_TOPOLOGY.device)} and the framework\n")
    with (
        tempfile.TemporaryDirectory(prefix="nnhal-") as folder,
        Testbed(DEFAULT_TOPOLOGY, Path(folder)) as testbed,
    ):
        raise typer.Exit(_exit_code(path, program, {**environment, _FRAMEWORK: str(testbed.framework)}))


def _listens(endpoint: Endpoint) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        return probe.connect_ex(str(endpoint.link)) == 0


def _exit_code(path: str, program: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a program to its end. An interrupt of the terminal is the program's to answer."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        child = subprocess.Popen(
            program,
            executable=path,
            env=environment,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        code = child.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    return 128 - code if code < 0 else code
