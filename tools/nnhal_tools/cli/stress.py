"""``nnhal stress``: whether a device keeps the contract under random and faulty use, and under clients that die."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table

from nnhal.contexts import Closing
from nnhal.endpoint import Endpoint
from nnhal.errors import NnhalError
from nnhal_conformance.random_steps.device import AskedDevice
from nnhal_conformance.random_steps.report import Walk
from nnhal_conformance.random_steps.running import SECONDS, SHRINKING_STEPS, walk
from nnhal_hosting.rpc import DEFECT
from nnhal_pages.explanation.marks import counted
from nnhal_pages.terminal import output_console, show_table
from nnhal_tools.cli.completion import complete_driver
from nnhal_tools.given_model import require_writable
from nnhal_tools.up import RenewableDevice
from nnhal_tools.up.drivers import given_device

_STEPS, _WORKERS = 2_000, 4
_CANNOT_BE_ASKED = 2


def stress(
    device: Annotated[
        str,
        typer.Argument(
            help="A driver, which gets a process of its own, or a running device's DIR.", autocompletion=complete_driver
        ),
    ],
    steps: Annotated[int, typer.Option(help="About how many steps are taken.", min=1)] = _STEPS,
    seed: Annotated[
        int | None, typer.Option(help="The same seed draws the same steps.", show_default="another each time")
    ] = None,
    shrink: Annotated[
        int, typer.Option(help="The most steps that are taken to find fewer that show a violation.", min=0)
    ] = SHRINKING_STEPS,
    limit: Annotated[float, typer.Option(help="How many seconds each answer may take.", min=0.1)] = SECONDS,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Executions that the driver's process runs at a time.",
            min=1,
            show_default=f"{_WORKERS}, or 1 if the driver is serial or its times are modelled",
        ),
    ] = None,
    database: Annotated[
        Path,
        typer.Option(help="Keep steps that show a violation in the folder DIR, and take them first the next time."),
    ] = Path(".hypothesis"),
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the whole report to FILE.")] = None,
) -> None:
    """Take random steps with several clients of a device: every call of the HAL, with valid and invalid arguments.

    Clients may be killed in the midst of calls. Each status is compared with the statuses that the contract allows,
    each output with the right one, and a device must hold nothing of sessions that have ended. The fewest steps that
    show a violation are printed as Python. No other client may use the device meanwhile.

    Exit status 0 without a violation, 1 with one, 2 if the device cannot be asked.

    nnhal stress cpu_ref
    """
    require_writable((json_file,))
    console, began = output_console(), time.monotonic()
    try:
        with _Opened(device, workers) as opened, AskedDevice(opened.serving, limit, DEFECT) as asked:
            with _progress(steps) as tell:
                done = walk(asked, steps, seed, database, tell, shrink)
            allocates = asked.allocates
    except (NnhalError, OSError) as error:
        if not getattr(error, "is_reported", False):  # by the process itself, which this one was to start
            print(f"nnhal: {device} cannot be asked: {error}", file=sys.stderr)
        raise typer.Exit(_CANNOT_BE_ASKED) from error
    _show(console, done, time.monotonic() - began, opened, allocates)
    if json_file:
        story = {
            "device": device,
            "taken": done.taken,
            "not_offered": done.not_offered,
            "violation": done.broken,
            "comes_again": done.comes_again,
            "script": done.script if done.steps else "",
            "workers": opened.workers,
            "serial_because": opened.serial_because,
        }
        json_file.write_text(json.dumps(story, indent=1))
    if done.broken:
        raise typer.Exit(1)


class _Opened(Closing):
    """The device, which is started again if it ends, and how many executions it runs at a time."""

    def __init__(self, device: str, workers: int | None) -> None:
        """Raises StartError, TopologyError, and TransportError or DeadObjectError if a running one does not answer."""
        entry = given_device(device)
        has_choice = not entry.is_foreign and "workers" not in entry.model_fields_set
        wanted, self.serial_because = workers or _WORKERS, ""
        self._device = RenewableDevice(device, "nnhal-stress", wanted)
        if has_choice and workers is None and self._device.remote.describe().modelled_timing:
            self._device.close()
            wanted, self.serial_because = 1, "its times are modelled"
            self._device = RenewableDevice(device, "nnhal-stress", wanted)
        try:
            self.workers = self._device.remote.describe().workers
        except NnhalError:  # the HAL alone does not say
            self.workers = 0
        if has_choice and self.workers < wanted:
            self.serial_because = "the driver is serial"
        self._is_new = True

    def serving(self) -> Endpoint:
        """Tell where the device serves, which is started again unless it was just started."""
        if not self._is_new:
            self._device.renew()
        self._is_new = False
        return self._device.remote.endpoint

    def close(self) -> None:
        self._device.close()


@contextmanager
def _progress(steps: int) -> Iterator[Callable[[Walk], None]]:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("stress", total=steps)

        def tell(done: Walk) -> None:
            what = "fewer steps are looked for that show the violation" if done.broken else "steps"
            progress.update(task, completed=done.taken.total(), description=f"{done.taken.total()} {what}")

        yield tell


def _show(console: Console, done: Walk, seconds: float, opened: _Opened, allocates: bool) -> None:
    """Print how often each step was taken, and the fewest steps that show a violation."""
    table = Table(Column("step", no_wrap=True), Column("taken", justify="right"), "", box=SIMPLE)
    for name, count in sorted(done.taken.items()):
        left = done.not_offered[name]
        table.add_row(name, str(count), f"{left} not offered" if left else "")
    show_table(table, console)
    lines = [f"{counted(done.taken.total(), 'step')} in {seconds:.0f} s"]
    if opened.workers:
        why = f", since {opened.serial_because}" if opened.serial_because else ""
        lines.append(f"{counted(opened.workers, 'execution')} at a time{why}")
    if not allocates:
        lines.append("no Allocate: nothing was done with device buffers")
    if done.broken:
        lines.append(f"violation: {done.broken}")
        if done.steps:
            again = "these steps show" if done.comes_again else "these steps have shown, though not each time"
            lines.append(f"{again} it, as a program whose argument is the directory of a running device:\n")
            lines.append(done.script)
    else:
        lines.append("no violation, and nothing was left in the device")
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
