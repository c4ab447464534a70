"""``nnhal top``."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from nnhal_pages.terminal import output_console
from nnhal_tools.cli.operating import DirectoryOption, JsonOption, KeyOption, operator_at, print_json, printable_text
from nnhal_tools.fitted_rows import fitted_rows
from nnhal_tools.operate.rates import CounterSample, DeviceRates, ModelRates, device_rates, model_rates, take_sample
from nnhal_tools.operate.text import in_bytes, lasting, request_time

_DEVICE_COLUMNS = (
    "device",
    "runs",
    "waits",
    "busy",
    "executions/s",
    "staged/s",
    "staged",
    "buffers",
    "memory",
)
_MODEL_COLUMNS = ("model", "version", "state", "requests/s", "failures/s", "queued", "oldest", "p50", "p99")


def top(
    once: Annotated[bool, typer.Option("--once", help="Print one table, for scripts.")] = False,
    seconds: Annotated[float, typer.Option(help="Between two looks.", min=0.1, max=3600)] = 1.0,
    directory: DirectoryOption = None,
    admin_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show how busy devices are, and how fast models answer, until interrupted."""
    with operator_at(directory, admin_key) as operator:
        before = take_sample(operator)
        time.sleep(seconds)
        after = take_sample(operator)
        if as_json or once:
            while True:
                _print(before, after, as_json)
                if once:
                    return
                time.sleep(seconds)
                before, after = after, take_sample(operator)
        console = output_console()
        shown = _tables(before, after, console.width)
        with Live(shown, console=console, screen=True, auto_refresh=False) as live:
            try:
                while True:
                    time.sleep(seconds)
                    before, after = after, take_sample(operator)
                    live.update(_tables(before, after, console.width), refresh=True)
            except KeyboardInterrupt:
                return


def _print(before: CounterSample, after: CounterSample, as_json: bool) -> None:
    if as_json:
        devices, models = device_rates(before, after), model_rates(before, after)
        print_json({"devices": [asdict(d) for d in devices], "models": [asdict(m) for m in models]})
    else:
        console = output_console()
        console.print(_tables(before, after, console.width))


def _tables(before: CounterSample, after: CounterSample, width: int) -> Group:
    rates = {device.name: device for device in device_rates(before, after)}
    silent = ("does not answer", *[""] * (len(_DEVICE_COLUMNS) - 2))
    devices = [_device_row(rates[name]) if name in rates else (printable_text(name), *silent) for name in after.devices]
    models = [_model_row(model) for model in model_rates(before, after)]
    return Group(
        fitted_rows(_DEVICE_COLUMNS, devices, width) if devices else Text("no devices"),
        fitted_rows(_MODEL_COLUMNS, models, width) if models else Text("no models are served"),
    )


def _device_row(device: DeviceRates) -> tuple[str, ...]:
    return (
        printable_text(device.name),
        f"{device.running}/{device.workers}",
        str(device.waiting),
        "-" if device.busy is None else f"{device.busy:.0%}",
        _rate(device.executions_per_second),
        "-" if device.staged_bytes_per_second is None else in_bytes(device.staged_bytes_per_second),
        in_bytes(device.staged_bytes),
        in_bytes(device.buffer_bytes),
        in_bytes(device.resident_bytes),
    )


def _model_row(model: ModelRates) -> tuple[str, ...]:
    return (
        printable_text(model.name),
        printable_text(model.version),
        model.state,
        _rate(model.requests_per_second),
        _rate(model.failures_per_second),
        str(model.queued),
        lasting(model.oldest_request_ns) if model.oldest_request_ns else "-",
        request_time(model.p50_ns),
        request_time(model.p99_ns),
    )


def _rate(per_second: float | None) -> str:
    return "-" if per_second is None else f"{per_second:.1f}"
