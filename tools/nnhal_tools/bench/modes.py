"""What each way of executing costs, on a tiny model and on one of a real network's size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns

import numpy as np

from nnhal.errors import HalError
from nnhal.fence import Fence
from nnhal.remote import RemoteDevice, RemoteFencedExecution, RemotePreparedModel
from nnhal.types import ErrorStatus, ExecutionConfig, FencedExecutionInfo, Model, Timing
from nnhal_tools.bench.hal_models import mobilenet_v2, relu, request_for
from nnhal_tools.up import single_device

_WARM_UP = 10
_TINY_ELEMENTS = 64
_MEASURED = ExecutionConfig(measure_timing=True)
Run = Callable[[], Timing]
"""Executes once and returns the device's own timing."""


@dataclass(frozen=True, slots=True)
class ModeReport:
    """One way of executing one model."""

    model: str
    """Name of the model."""
    mode: str
    """Name of the way of executing."""
    rounds: int
    """Interleaved rounds."""
    p50_ns: float
    """Median of the client's time."""
    p99_ns: float
    """99th percentile of the client's time."""
    compute_ns: float
    """Median of the device's own time_on_device."""
    overhead: float
    """Share of the median that is not compute."""


def measure_modes(driver: str, rounds: int, large_rounds: int, advance: Callable[[], None]) -> list[ModeReport]:
    """Measure every mode of both models once in each round. Raises StartError or HalError."""
    with single_device(driver, "nnhal-bench") as device:
        tiny = _measure(device, "tiny: RELU of 64 floats", relu(_TINY_ELEMENTS), rounds, advance)
        return tiny + _measure(device, "MobileNet V2 float32", mobilenet_v2(), large_rounds, advance)


def _measure(
    device: RemoteDevice, name: str, model: Model, rounds: int, advance: Callable[[], None]
) -> list[ModeReport]:
    modes = _modes(device, device.prepare_model(model), model)
    for _ in range(min(_WARM_UP, rounds)):
        for run in modes.values():
            run()
    samples: dict[str, list[tuple[int, int]]] = {mode: [] for mode in modes}
    for _ in range(rounds):
        for mode, run in modes.items():
            started = perf_counter_ns()
            timing = run()
            samples[mode].append((perf_counter_ns() - started, timing.time_on_device_ns))
        advance()
    return [_report(name, mode, values) for mode, values in samples.items()]


def _report(model: str, mode: str, values: list[tuple[int, int]]) -> ModeReport:
    walls, computes = (np.array(column, float) for column in zip(*values, strict=True))
    return ModeReport(
        model,
        mode,
        len(values),
        float(np.percentile(walls, 50)),
        float(np.percentile(walls, 99)),
        float(np.percentile(computes, 50)),
        float(np.median((walls - computes) / walls)),
    )


def _modes(device: RemoteDevice, prepared: RemotePreparedModel, model: Model) -> dict[str, Run]:
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
