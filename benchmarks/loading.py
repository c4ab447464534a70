"""``python -m benchmarks.loading [NODES …]``: how long loading takes as models grow.

A framework and its devices run as processes of their own, and files of two kinds are loaded with each number of nodes.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import onnx
import typer
from onnx import helper

from benchmarks.__main__ import run
from benchmarks.models import onnx_model
from benchmarks.startup import processor_seconds
from benchmarks.testbeds import framework_over
from nnhal_tools.bench.runner import Report, figure_table
from nnhal_tools.up import DeviceEntry

_NODES = (1250, 2500, 5000, 10_000)
_CHANNELS, _SIDE = 4, 6


def _chain(nodes: int) -> onnx.ModelProto:
    """Return nodes of which each reads the one before."""
    made = [helper.make_node(("Sigmoid", "Tanh")[i % 2], [f"v{i}"], [f"v{i + 1}"]) for i in range(nodes)]
    return onnx_model(made, {"v0": (1, 16)}, {f"v{nodes}": (1, 16)})


def _residual(nodes: int) -> onnx.ModelProto:
    """Return blocks of Conv, Relu, Conv, Add and Relu around a shortcut, with weights of their own."""
    random, shape = np.random.default_rng(0), (1, _CHANNELS, _SIDE, _SIDE)
    made, weights, source = [], {}, "x"
    for block in range(nodes // 5):
        for layer in "ab":
            weights[f"w{block}{layer}"] = random.normal(size=(_CHANNELS, _CHANNELS, 3, 3)).astype(np.float32) / 6
        names = [source, *(f"{letter}{block}" for letter in "abcde")]
        for number, operator in enumerate(("Conv", "Relu", "Conv", "Add", "Relu")):
            more = {0: [f"w{block}a"], 2: [f"w{block}b"], 3: [source]}.get(number, [])
            attributes: dict[str, Any] = {"pads": [1, 1, 1, 1]} if operator == "Conv" else {}
            made.append(helper.make_node(operator, [names[number], *more], [names[number + 1]], **attributes))
        source = names[-1]
    return onnx_model(made, {"x": shape}, {source: shape}, weights)


_MODELS: Mapping[str, Callable[[int], onnx.ModelProto]] = {"chain": _chain, "residual": _residual}


def loading(
    nodes: Annotated[list[int] | None, typer.Argument(help="Numbers of nodes.", min=5)] = None,
    devices: Annotated[str, typer.Option(help="Drivers, with commas between.")] = "cpu_acc,cpu_ref",
    models: Annotated[str, typer.Option(help=f"Kinds of files: {', '.join(_MODELS)}.")] = ",".join(_MODELS),
) -> Report:
    """Measure loading as models grow, and the processor time of each process for it, seconds."""
    drivers, rows = devices.split(","), []
    with (
        tempfile.TemporaryDirectory(prefix="nnhal-") as folder,
        framework_over(*(DeviceEntry(driver=name) for name in drivers)) as framework,
    ):
        pids = [framework.calls.peer_pid, *(device.pid for device in framework.devices())]
        names = ["framework", *(device.name for device in framework.devices())]
        file = Path(folder) / "model.onnx"
        for kind in models.split(","):
            for count in nodes or _NODES:
                onnx.save(_MODELS[kind](count), file)
                before = [processor_seconds(pid) for pid in pids]
                started = time.perf_counter()
                with framework.load(file) as model:
                    seconds, steps = time.perf_counter() - started, len(model.steps)
                spent = [processor_seconds(pid) - begun for pid, begun in zip(pids, before, strict=True)]
                rows.append((kind, count, steps, *(f"{each:.2f}" for each in (seconds, *spent))))
    return Report([figure_table("Loads, seconds", "model", f"nodes,steps,until loaded,{','.join(names)}", rows)])


if __name__ == "__main__":
    run(loading)
