"""``nnhal ps`` and ``nnhal show``: what a testbed has, from the table of resources."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from nnhal_hosting.run_trace import timeline_trace
from nnhal_pages.operating.performance import performance_rows
from nnhal_pages.operating.resources import RESOURCES
from nnhal_pages.operating.resources.devices import DEVICES
from nnhal_pages.operating.resources.events import EVENTS
from nnhal_pages.operating.resources.history import DEVICE_RATES, MODEL_RATES, device_rates, model_rates
from nnhal_pages.operating.resources.models import MODELS
from nnhal_pages.operating.resources.processes import PROCESSES
from nnhal_pages.operating.resources.runs import RECORDINGS, RUNS, RunOrder, find_runs
from nnhal_pages.operating.snapshot import Detail, ObservedProcess, OperatorError, Snapshot
from nnhal_pages.operating.table import Resource
from nnhal_pages.terminal import output_console
from nnhal_pages.units import size
from nnhal_pages.wires import link_words
from nnhal_tools.cli.completion import complete_model, complete_process
from nnhal_tools.cli.logs import logs
from nnhal_tools.cli.operating import at_a_testbed, print_json, print_rows, printable_text, say
from nnhal_tools.fitted_rows import fitted_rows
from nnhal_tools.operate.operator_session import OperatorSession

_RATES = {"devices": device_rates, "models": model_rates}
Lines = Annotated[int, typer.Option("--lines", help="Only so many, the newest.", min=1)]
app = typer.Typer(help="Show what a testbed has, and what has happened.", no_args_is_help=True, add_completion=False)


@app.callback()
def show() -> None:
    """Show what a testbed has, and what has happened."""


def _print(resource: Resource, items: Iterable[Any], as_json: bool) -> None:
    if as_json:
        print_json(resource.as_json(items))
    else:
        print_rows(resource.heads, map(resource.row, items), resource.empty)


def _listing(resource: Resource, about: str) -> Callable[..., None]:
    """Return the command that lists things of a kind, without options of its own."""

    def listing(operator: OperatorSession, as_json: bool) -> None:
        _print(resource, resource.found(operator), as_json)

    listing.__doc__ = about
    return at_a_testbed(listing)


ps = _listing(PROCESSES, "List the processes of a testbed, as 'nnhal show processes' does.\n\nnnhal ps")
for _name in ("processes", "sessions", "pools", "buffers", "executions", "fences", "plans", "faults", "clients"):
    app.command(_name)(_listing(RESOURCES[_name], RESOURCES[_name].about))


@app.command()
@at_a_testbed
def devices(
    operator: OperatorSession,
    as_json: bool,
    name: Annotated[
        str | None, typer.Argument(help="One device, with all that it says of itself.", autocompletion=complete_process)
    ] = None,
) -> None:
    """List devices; or show one: its performance table, memory rules, figures, and the limits of its operations."""
    if name is None:
        _print(DEVICES, DEVICES.found(operator), as_json)
        return
    process = operator.find(name)
    if process.kind != "device":
        raise OperatorError(f"{name} is a process of kind {process.kind!r}, expected a device")
    (item,) = (item for item in DEVICES.found(operator) if item[0].name == name)
    if as_json:
        print_json(DEVICES.value(*item))
    else:
        _print(DEVICES, [item], as_json)
        _show_device(item[0])


@app.command()
@at_a_testbed
def models(
    operator: OperatorSession,
    as_json: bool,
    name: Annotated[str | None, typer.Argument(help="One model, as JSON.", autocompletion=complete_model)] = None,
    version: Annotated[str, typer.Option(help="The version; the newest that is ready by default.")] = "",
) -> None:
    """List models; or print one's configuration, metadata and statistics as JSON."""
    if name is None:
        _print(MODELS, MODELS.found(operator), as_json)
        return
    model = operator.contacts.framework().served_model(name, version)
    values = {
        part: json.loads(getattr(model, f"{part}_json") or "null") for part in ("config", "metadata", "statistics")
    }
    told = {"version": model.version, "file": model.file, "placement": model.placement}
    print_json({"name": name, **told, **values})


@app.command()
@at_a_testbed
def runs(
    operator: OperatorSession,
    as_json: bool,
    model: Annotated[str, typer.Option(help="Only of this model.")] = "",
    failed: Annotated[bool, typer.Option("--failed", help="Only runs that failed or fell back.")] = False,
    begin: Annotated[
        str, typer.Option("--from", help="Only runs that had not ended then, such as 2026-11-27T14:03:00Z.")
    ] = "",
    until: Annotated[str, typer.Option(help="Only runs that had arrived then.")] = "",
    sort: Annotated[RunOrder, typer.Option(help="The newest last, or the slowest first.")] = "ended",
    lines: Lines = 1000,
) -> None:
    """List runs that have ended: the last ones, or with a time or '--sort took' runs of the last day.

    Runs that wait or run are in 'nnhal show executions'.
    """
    _print(RUNS, find_runs(operator, model, begin, until, sort, failed, lines), as_json)


@app.command()
@at_a_testbed
def recordings(
    operator: OperatorSession,
    as_json: bool,
    number: Annotated[int | None, typer.Argument(help="Of the recording to write.", min=1)] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="A file for Perfetto or chrome://tracing.")] = None,
) -> None:
    """List the recordings of runs that the framework keeps, whoever made them, or write one's timeline to a file."""
    if (number is None) != (out is None):
        raise ValueError("expected both the number of a recording and --out FILE, or neither")
    if number is None or out is None:
        _print(RECORDINGS, RECORDINGS.found(operator), as_json)
        return
    recording = operator.contacts.framework().recording(number)
    timeline_trace(recording.runs).write(out)
    told = f"{len(recording.runs)} runs of recording {number} are in {out}"
    say(told, as_json, runs=len(recording.runs), left=recording.left, file=str(out))


@app.command()
@at_a_testbed
def events(operator: OperatorSession, as_json: bool, lines: Lines = 500) -> None:
    """List events: processes that died, devices lost and back, models planned again, fallbacks."""
    _print(EVENTS, EVENTS.found(operator)[-lines:], as_json)


app.command()(logs)


@app.command()
@at_a_testbed
def rates(
    operator: OperatorSession,
    as_json: bool,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on, until interrupted.")] = False,
    seconds: Annotated[float, typer.Option(help="Between two looks.", min=0.1, max=3600)] = 1.0,
) -> None:
    """Show how busy devices are, and how fast models answer."""
    console = output_console()
    looks = _looks(operator, seconds)
    if as_json or not follow:
        for look in islice(looks, None if follow else 1):
            if as_json:
                print_json({name: list(known(*look)) for name, known in _RATES.items()})
            else:
                console.print(_tables(*look, console.width))
        return
    with (
        suppress(KeyboardInterrupt),
        Live(_tables(*next(looks), console.width), console=console, screen=True, auto_refresh=False) as live,
    ):
        for look in looks:
            live.update(_tables(*look, console.width), refresh=True)


def _looks(operator: OperatorSession, seconds: float) -> Iterator[tuple[Snapshot, Snapshot]]:
    before = operator.look(Detail.PROCESSES)
    while True:
        time.sleep(seconds)
        after = operator.look(Detail.PROCESSES)
        yield before, after
        before = after


def _tables(before: Snapshot, after: Snapshot, width: int) -> Group:
    devices = [DEVICE_RATES.row((rates,)) for rates in device_rates(before, after)]
    silent = ("does not answer", *[""] * (len(DEVICE_RATES.columns) - 2))
    devices += [(device.name, *silent) for device in after.devices if not device.answers]
    models = [MODEL_RATES.row((rates,)) for rates in model_rates(before, after)]
    return Group(_table(DEVICE_RATES, devices, width), _table(MODEL_RATES, models, width))


def _table(resource: Resource, rows: Sequence[Sequence[str]], width: int) -> RenderableType:
    if not rows:
        return Text(resource.empty)
    return fitted_rows(resource.heads, [[printable_text(cell) for cell in row] for row in rows], width)


def _show_device(device: ObservedProcess) -> None:
    description, state = device.description, device.device
    if description is not None:
        say(description.realisation, False)
        imports = ", ".join(sorted(description.imports)) or "no memory"
        say(f"memory: imports {imports} at multiples of {description.alignment}; stages all other", False)
        costs = description.transfer_costs
        if costs.is_wire:
            say(f"on another host: {link_words(costs.round_trip_ns, costs.copy_ns_per_byte)}", False)
    if device.identity is not None:
        rows = [(row.name, row.time, row.power) for row in performance_rows(device.identity.capabilities)]
        print_rows(("operands", "time by the CPU's", "power by the CPU's"), rows, "no performance table")
    if state is not None:
        if state.wire_up_bytes or state.wire_down_bytes:
            sent = f"{size(state.wire_up_bytes)} up, {size(state.wire_down_bytes)} down"
            say(f"values on the wire since the process started: {sent}", False)
        if state.injected_faults:
            say(f"faults injected since the process started: {state.injected_faults}", False)
        figures = [(figure.name, f"{figure.value:g} {figure.unit}".strip()) for figure in state.figures]
        if state.HasField("temperature"):
            figures.append(("temperature", f"{state.temperature:.1f} °C"))
        if figures:
            print_rows(("figure", "value"), figures, "")
        limits = [(limit.operation, limit.conditions or "no conditions") for limit in device.limits]
        print_rows(("operation", "is taken if"), limits, "the driver says nothing of its operations")
