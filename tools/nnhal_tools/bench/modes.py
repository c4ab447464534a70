"""``nnhal bench modes``: each way of executing, on a tiny model and on one of a real network's size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import typer

from nnhal.errors import HalError
from nnhal.fence import Fence
from nnhal.remote import RemoteDevice, RemoteFencedExecution
from nnhal.types import ErrorStatus, ExecutionConfig, FencedExecutionInfo, Model, Timing
from nnhal_tools.bench.hal_models import layers, relu, request_for
from nnhal_tools.bench.runner import Advance, Report, figure_table, in_turns, progress
from nnhal_tools.cli.completion import complete_driver
from nnhal_tools.up import single_device

_WARM_UP = 10
_MEASURED = ExecutionConfig(measure_timing=True)
_ModeFigures = dict[str, Any]


def modes(
    device: Annotated[str, typer.Option(help="The driver.", autocompletion=complete_driver)] = "cpu_acc",
    rounds: Annotated[int, typer.Option(help="Interleaved rounds of the tiny model.", min=10)] = 1000,
    large_rounds: Annotated[int, typer.Option(help="Interleaved rounds of the large one.", min=3)] = 40,
) -> Report:
    """Measure each way of executing: synchronous, reusable, in bursts, fenced.

    A tiny model and one of 67 million multiply-adds, timing requested; compute is the device's own time_on_device.
    """
    models = {
        "tiny: RELU of 64 floats": (relu(64), rounds),
        "64 layers of 1024 floats": (layers(64, 1024), large_rounds),
    }
    figures: list[_ModeFigures] = []
    tables = []
    with single_device(device, "nnhal-bench") as driver, progress("modes", rounds + large_rounds) as advance:
        for name, (model, count) in models.items():
            own = _measured(driver, name, model, count, advance)
            figures += own
            title, figures_of = f"{name}, {count} interleaved rounds, µs", "p50,p99,compute,not compute"
            tables.append(figure_table(title, "mode", figures_of, map(_row, own)))
    return Report(tables, figures=figures)


def _row(figures: _ModeFigures) -> list[str]:
    times = (f"{figures[name] / 1e3:,.0f}" for name in ("p50_ns", "p99_ns", "compute_ns"))
    return [figures["mode"], *times, f"{figures['overhead']:.1%}"]


def _measured(device: RemoteDevice, name: str, model: Model, rounds: int, advance: Advance) -> list[_ModeFigures]:
    computes: defaultdict[str, list[int]] = defaultdict(list)

    def note(mode: str, timing: Timing) -> None:
        computes[mode].append(timing.time_on_device_ns)

    samples = in_turns(_modes(device, model), rounds, warm_up=min(_WARM_UP, rounds), noted=note, advance=advance)
    found: list[_ModeFigures] = []
    for mode, sample in samples.items():
        walls, own = np.array(sample.values, float), np.array(computes[mode], float)
        times = {"p50_ns": np.percentile(walls, 50), "p99_ns": np.percentile(walls, 99), "compute_ns": np.median(own)}
        overhead = float(np.median((walls - own) / walls))
        found.append({"model": name, "mode": mode, "rounds": rounds, **times, "overhead": overhead})
    return found


def _modes(device: RemoteDevice, model: Model) -> dict[str, Callable[[], Timing]]:
    """Return functions that execute once, and return the device's own timing."""
    prepared = device.prepare_model(model)
    request = request_for(model)
    execution = prepared.create_reusable_execution(request, _MEASURED)
    burst = prepared.configure_execution_burst()
    launcher = device.open_launcher()

    def on_channel() -> Timing:
        _wait(launcher.launch(execution))
        return _timing(launcher.info(execution))

    return {
        "synchronous": lambda: prepared.execute(request, _MEASURED).timing,
        "reusable": lambda: execution.execute().timing,
        "burst": lambda: burst.execute(request, (0,), _MEASURED).result.timing,
        "burst, reusable": lambda: burst.run(execution).result.timing,
        "fenced": lambda: _fenced(prepared.execute_fenced(request, config=_MEASURED)),
        "fenced, reusable": lambda: _fenced(execution.execute_fenced()),
        "fenced, reusable, channel": on_channel,
    }


def _fenced(launched: RemoteFencedExecution) -> Timing:
    _wait(launched.fence)
    try:
        return _timing(launched.info())
    finally:
        launched.release()


def _wait(fence: Fence | None) -> None:
    if fence is not None:
        fence.wait()


def _timing(info: FencedExecutionInfo) -> Timing:
    if info.status != ErrorStatus.NONE:
        raise HalError(info.status, info.message)
    return info.timing_launched
