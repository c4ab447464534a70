"""``nnhal ps`` and ``nnhal show``: what a testbed has, from the table of resources."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
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
from nnhal_pages.operating.resources import RESOURCES, Resource
from nnhal_pages.operating.snapshot import Detail, ObservedProcess, Snapshot
from nnhal_pages.terminal import output_console
from nnhal_pages.units import duration, lasting, size
from nnhal_pages.wires import link_words
from nnhal_tools.cli.completion import complete_model, complete_process
from nnhal_tools.cli.logs import logs
from nnhal_tools.cli.operating import at_a_testbed, print_json, print_rows, printable_text, say
from nnhal_tools.fitted_rows import fitted_rows
from nnhal_tools.operate.operator_session import OperatorError, OperatorSession
from nnhal_tools.operate.rates import Rates, device_rates, model_rates

_DEVICE_RATES = ("device", "runs", "waits", "busy", "executions/s", "staged/s", "staged", "buffers", "memory")
_MODEL_RATES = ("model", "version", "state", "requests/s", "failures/s", "queued", "oldest", "p50", "p99")
Lines = Annotated[int, typer.Option("--lines", help="Only so many, the newest.", min=1)]
app = typer.Typer(help="Show what a testbed has, and what has happened.", no_args_is_help=True, add_completion=False)


@app.callback()
def show() -> None:
    """Show what a testbed has, and what has happened."""


def _items(operator: OperatorSession, resource: Resource) -> list[tuple[Any, ...]]:
    """Ask for all things of a kind. Raises NnhalError if what knows them does not answer."""
    snapshot = operator.snapshot(resource.needs)
    if resource.of_framework and snapshot.framework is None:
        with operator.framework() as admin:
            admin.framework()
    return list(resource.items(snapshot))


def _print(resource: Resource, items: Iterable[Any], as_json: bool) -> None:
    if as_json:
        print_json(resource.as_json(items))
    else:
        print_rows(tuple(resource.cells), map(resource.row, items), resource.empty)


def _listing(resource: Resource) -> None:
    """Add the command that lists things of a kind, without options of its own."""

    @app.command(resource.name, help=resource.about)
    @at_a_testbed
    def listing(operator: OperatorSession, as_json: bool) -> None:
        _print(resource, _items(operator, resource), as_json)


@at_a_testbed
def ps(operator: OperatorSession, as_json: bool) -> None:
    """List the processes of a testbed, as 'nnhal show processes' does."""
    _print(RESOURCES["processes"], _items(operator, RESOURCES["processes"]), as_json)


for _name in ("processes", "sessions", "pools", "buffers", "executions", "fences"):
    _listing(RESOURCES[_name])


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
    resource = RESOURCES["devices"]
    if name is None:
        _print(resource, _items(operator, resource), as_json)
        return
    process = operator.find(name)
    if process.kind != "device":
        raise OperatorError(f"{name} is a process of kind {process.kind!r}, expected a device")
    (item,) = (item for item in _items(operator, resource) if item[0].name == name)
    if as_json:
        print_json(resource.value(*item))
    else:
        _print(resource, [item], as_json)
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
        _print(RESOURCES["models"], _items(operator, RESOURCES["models"]), as_json)
        return
    with operator.framework() as framework:
        model = framework.served_model(name, version)
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
    failed: Annotated[bool, typer.Option("--failed", help="Only those that failed or fell back.")] = False,
    lines: Lines = 1000,
) -> None:
    """List runs that have ended, the newest last. Those that wait or run are in 'nnhal show executions'."""
    chosen = [
        (run,)
        for (run,) in _items(operator, RESOURCES["runs"])
        if model in ("", run.model) and (not failed or run.error or run.fell_back)
    ]
    _print(RESOURCES["runs"], chosen[-lines:], as_json)


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
        _print(RESOURCES["recordings"], _items(operator, RESOURCES["recordings"]), as_json)
        return
    with operator.framework() as framework:
        recording = framework.recording(number)
    timeline_trace(recording.runs).write(out)
    told = f"{len(recording.runs)} runs of recording {number} are in {out}"
    say(told, as_json, runs=len(recording.runs), left=recording.left, file=str(out))


@app.command()
@at_a_testbed
def events(operator: OperatorSession, as_json: bool, lines: Lines = 500) -> None:
    """List what has happened: processes that died, devices lost and back, models planned again, fallbacks."""
    _print(RESOURCES["events"], _items(operator, RESOURCES["events"])[-lines:], as_json)


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
        for before, after in islice(looks, None if follow else 1):
            if as_json:
                print_json({"devices": device_rates(before, after), "models": model_rates(before, after)})
            else:
                console.print(_tables(before, after, console.width))
        return
    with (
        suppress(KeyboardInterrupt),
        Live(_tables(*next(looks), console.width), console=console, screen=True, auto_refresh=False) as live,
    ):
        for before, after in looks:
            live.update(_tables(before, after, console.width), refresh=True)


def _looks(operator: OperatorSession, seconds: float) -> Iterator[tuple[Snapshot, Snapshot]]:
    before = operator.snapshot(Detail.PROCESSES)
    while True:
        time.sleep(seconds)
        after = operator.snapshot(Detail.PROCESSES)
        yield before, after
        before = after


def _tables(before: Snapshot, after: Snapshot, width: int) -> Group:
    known = {device["name"]: device for device in device_rates(before, after)}
    silent = ("does not answer", *[""] * (len(_DEVICE_RATES) - 2))
    devices = [_device_row(known[d.name]) if d.name in known else (d.name, *silent) for d in after.devices]
    models = [_model_row(model) for model in model_rates(before, after)]
    return Group(
        _table(_DEVICE_RATES, devices, width) if devices else Text("no devices"),
        _table(_MODEL_RATES, models, width) if models else Text("no models are served"),
    )


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> RenderableType:
    return fitted_rows(columns, [[printable_text(cell) for cell in row] for row in rows], width)


def _device_row(device: Rates) -> tuple[str, ...]:
    return (
        device["name"],
        f"{device['running']}/{device['workers']}",
        str(device["waiting"]),
        "-" if device["busy"] is None else f"{device['busy']:.0%}",
        _rate(device["executions_per_second"]),
        "-" if device["staged_bytes_per_second"] is None else size(device["staged_bytes_per_second"]),
        size(device["staged_bytes"]),
        size(device["buffer_bytes"]),
        size(device["resident_bytes"]),
    )


def _model_row(model: Rates) -> tuple[str, ...]:
    return (
        model["name"],
        model["version"],
        model["state"],
        _rate(model["requests_per_second"]),
        _rate(model["failures_per_second"]),
        str(model["queued"]),
        lasting(model["oldest_request_ns"]) if model["oldest_request_ns"] else "-",
        *(duration(-1 if quantile is None else quantile) for quantile in (model["p50_ns"], model["p99_ns"])),
    )


def _rate(per_second: float | None) -> str:
    return "-" if per_second is None else f"{per_second:.1f}"


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
        limits = [(limit.operation, limit.conditions or "no conditions") for limit in state.limits]
        print_rows(("operation", "is taken if"), limits, "the driver says nothing of its operations")
