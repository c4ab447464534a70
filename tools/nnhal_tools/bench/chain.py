"""``nnhal bench chain``: one model, cut into more and more steps over two processes."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from nnhal_client.binding import Binding
from nnhal_client.framework import Framework, connect
from nnhal_tools.bench.hal_models import layers
from nnhal_tools.bench.ping_pong import ping_pong
from nnhal_tools.bench.runner import Action, Report, figure_table, in_turns, progress
from nnhal_tools.up import DeviceEntry, Testbed, Topology

_MOST_STEPS = 8
_WARM_UP = 50
_WIDTH = 256
_DEVICES = ("acc0", "acc1")
_PING = "ping-pong"


def chain(
    rounds: Annotated[int, typer.Option(help="Interleaved rounds; each measures everything once.", min=10)] = 1000,
    measured: Annotated[
        bool, typer.Option("--measured", help="Runs through the framework that report times, as in the demo.")
    ] = False,
) -> Report:
    """Measure a further step of a plan.

    One model of eight layers, cut into 1 to 8 steps over two processes of cpu_acc in turn; a client runs it directly on
    them. The floor of a further step is a socket ping-pong and the step's own run.
    """
    topology = Topology(device=tuple(DeviceEntry(driver="cpu_acc", name=name) for name in _DEVICES))
    counts = range(1, _MOST_STEPS + 1)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nnhal-")))
        testbed = stack.enter_context(Testbed(topology, directory))
        framework = stack.enter_context(connect(testbed.framework))
        reporting = {count: _bound(framework, count, measure_timing=True) for count in counts}
        running = reporting if measured else {count: _bound(framework, count, measure_timing=False) for count in counts}
        own = {count: _own_ns(binding) for count, binding in reporting.items()}
        ways: dict[str, Action] = {str(count): binding.run for count, binding in running.items()}
        ways[_PING] = stack.enter_context(ping_pong())
        samples = in_turns(ways, rounds, warm_up=_WARM_UP, advance=stack.enter_context(progress("chain", rounds)))
    floor_ns = samples[_PING].percentile(50)
    runs = {count: samples[str(count)].percentile(50) for count in counts}
    cuts = []
    for count, run_ns in runs.items():
        added = (run_ns - runs[1]) / (count - 1) if count > 1 else 0.0
        ratio = added / (floor_ns + own[count])
        cuts.append({"steps": count, "run_ns": run_ns, "own_ns": own[count], "added_ns": added, "floor_ratio": ratio})
    how = "measured, through the framework" if measured else "direct"
    table = figure_table(
        f"A model cut into steps, {how}, medians of {rounds} interleaved rounds, µs",
        "steps",
        "run,own runs of its steps,control,each further step,of its floor",
        (_row(cut) for cut in cuts),
    )
    floor = (
        f"floor of a further step: a ping-pong of {floor_ns / 1e3:.1f} µs, and the step's own run  (aim: at most 1.5)"
    )
    figures = {"rounds": rounds, "ping_pong_ns": floor_ns, "cuts": cuts}
    return Report([table], remarks=[floor], figures=figures)


def _row(cut: dict[str, float]) -> tuple[str, ...]:
    own_ns = cut["steps"] * cut["own_ns"]
    times = (cut["run_ns"], own_ns, cut["run_ns"] - own_ns)
    further = (f"{cut['added_ns'] / 1e3:.0f}", f"{cut['floor_ratio']:.2f}") if cut["steps"] > 1 else ("", "")
    return (str(cut["steps"]), *(f"{time / 1e3:.0f}" for time in times), *further)


def _bound(framework: Framework, steps: int, measure_timing: bool) -> Binding:
    """Cut the model into steps of about as many operations each, that alternate between the devices."""
    pins = {
        f"name:operation{number}": _DEVICES[number * steps // _MOST_STEPS % len(_DEVICES)]
        for number in range(_MOST_STEPS)
    }
    model = framework.load_model(layers(_MOST_STEPS, _WIDTH), pins=pins, fallback="deny")
    if len(model.steps) != steps:
        raise RuntimeError(f"the plan has {len(model.steps)} steps, expected {steps}")
    binding = model.bind(measure_timing=measure_timing)
    binding.fill({"input0": np.linspace(-1, 1, _WIDTH, dtype=np.float32)[np.newaxis]})
    return binding


def _own_ns(binding: Binding) -> float:
    """Return the median of a step's own run, the mean over the steps."""
    reports = [binding.run().steps for _ in range(_WARM_UP)]
    times = np.array([[step.time_in_driver_ns for step in steps] for steps in reports], float)
    return float(np.median(times, axis=0).mean())
