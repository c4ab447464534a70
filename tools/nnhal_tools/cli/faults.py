"""``nnhal faults``: faults of running devices."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from nnhal.errors import MissingMethodError
from nnhal.remote.faults import FaultControl, FaultState
from nnhal_hosting.faults import FaultDocument, read_faults_file
from nnhal_pages.operating.resources.faults import FAULTS
from nnhal_pages.operating.snapshot import ObservedProcess, OperatorError
from nnhal_tools.cli.completion import complete_process
from nnhal_tools.cli.operating import DirectoryOption, JsonOption, operator_at, print_json, print_rows, say

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Tell running devices to misbehave: they must have been started with --allow-faults.",
)
DeviceOption = Annotated[
    str, typer.Option("--device", help="Only this device, by its name in 'nnhal ps'.", autocompletion=complete_process)
]
FileArgument = Annotated[Path, typer.Argument(help="A file of faults: TOML, or JSON if its name ends so.")]


@app.command("set")
def set_faults(
    file: FileArgument,
    device: DeviceOption = "",
    directory: DirectoryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add the faults of a file to the devices that they are about. One with the name of another replaces it."""
    document = read_faults_file(file)
    done: dict[str, list[str]] = {}
    for process in _devices(directory, device):
        own = document.of(process.name)
        if own.fault:
            is_meant = bool(device) or any(process.name in fault.device for fault in own.fault)
            with _faults_of(process, is_meant) as control:
                done[process.name] = control.set(*json.loads(own.as_json())["fault"])
    if not done:
        raise OperatorError(f"{file}: none of its {len(document.fault)} faults is about a device here")
    changes = "; ".join(f"{name}: {', '.join(names)}" for name, names in done.items())
    say(f"set on {changes}", as_json, set=done)


@app.command("list")
def list_faults(device: DeviceOption = "", directory: DirectoryOption = None, as_json: JsonOption = False) -> None:
    """List the faults of devices, and how often each has happened."""
    found: list[tuple[str, FaultState]] = []
    for process in _devices(directory, device):
        with _faults_of(process, bool(device)) as control:
            found += [(process.name, state) for state in control.faults()]
    if as_json:
        print_json(FAULTS.as_json(found))
    else:
        print_rows(FAULTS.heads, map(FAULTS.row, found), FAULTS.empty)


@app.command("clear")
def clear_faults(
    names: Annotated[list[str] | None, typer.Argument(help="Names of faults; all without one.")] = None,
    device: DeviceOption = "",
    directory: DirectoryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove faults by name, or all. What they have hang goes on."""
    wanted, cleared = set(names or ()), 0
    unknown = set(wanted)
    for process in _devices(directory, device):
        with _faults_of(process, bool(device)) as control:
            own = [state.name for state in control.faults()]
            chosen = sorted(wanted.intersection(own))
            unknown -= set(own)
            if chosen or not wanted:
                cleared += control.clear(chosen)
    if unknown:
        raise OperatorError(f"no fault is called {sorted(unknown)[0]!r}", "'nnhal faults list' shows those there are")
    say(f"{cleared} fault{'' if cleared == 1 else 's'} removed", as_json, cleared=cleared)


@app.command("check")
def check(file: FileArgument) -> None:
    """Read a file of faults, and say what is wrong with it or how many it has."""
    document = read_faults_file(file)
    say(f"{file}: {len(document.fault)} faults, all valid", as_json=False)


@app.command("schema")
def schema() -> None:
    """Print the JSON Schema of files of faults."""
    print(json.dumps(FaultDocument.model_json_schema(), indent=2))


def _devices(directory: Path | None, only: str) -> Iterator[ObservedProcess]:
    """The devices that take faults: the one that was named, or all."""
    with operator_at(directory, None) as operator:
        if only:
            found = [operator.find(only)]
        else:
            found = [process for process in operator.processes() if process.kind == "device"]
    yield from found


@contextmanager
def _faults_of(process: ObservedProcess, is_meant: bool) -> Iterator[FaultControl]:
    """Ask a device. One without FaultService is left out, with a word, unless it is the one that is meant."""
    try:
        with FaultControl(process.endpoint) as control:
            yield control
    except MissingMethodError:
        if is_meant:
            raise
        print(f"{process.name} is left out: it has no FaultService", file=sys.stderr)
