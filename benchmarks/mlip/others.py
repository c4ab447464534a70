"""Networks of others, from packages: subgraphs, what stays on the host, modelled time, and ONNX Runtime's results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnxruntime
from rich.table import Table

from benchmarks.aims import Aim
from benchmarks.zoo.packages import installed
from nnhal.arrays import Array
from nnhal_mlip.command.compiling import CompilationRequest, compile_model, target_options
from nnhal_mlip.command.folder import open_folder
from nnhal_mlip.command.network_perf import network_perf
from nnhal_mlip.command.samples import write_arrays
from nnhal_mlip.command.simulation import simulate
from nnhal_mlip.timing.profile import read_profile

_TOLERANCE = 2**-8
"""Of the error, of the root mean square of an output: 48 dB."""
_PIXELS = 4
"""Of the picture for each bit of a digit."""
_DIGITS = (
    "01110001000111001110000100111100110",
    "10001011001000110001001101000001000",
    "10001001000000100001010101111010000",
    "10001001000001000110100100000111110",
    "10001001000010000001111110000110001",
    "10001001000100010001000101000110001",
    "01110011101111101110000100111001110",
)
"""The digits from 0 to 6."""


@dataclass(frozen=True, slots=True)
class OthersNetwork:
    """A network of a package, and what is to be reached."""

    title: str
    file: str
    """As ``ModelFile.name``."""
    shape: tuple[int, int, int, int]
    most_subgraphs: int


@dataclass(frozen=True, slots=True)
class OthersRun:
    """What came of a network."""

    network: OthersNetwork
    subgraphs: int
    layers: int
    host: tuple[str, ...]
    hardware_ns: float
    whole_ns: float
    error: float
    """The root mean square of the distance from ONNX Runtime's results, relative to that of the results."""
    largest: float
    """The largest distance, relative to the largest value."""


NETWORKS = (
    OthersNetwork("YOLOv8n", "nudenet/320n.onnx", (1, 3, 320, 320), 6),
    OthersNetwork("PP-OCRv4 det", "rapidocr_onnxruntime/ch_PP-OCRv4_det_infer.onnx", (1, 3, 320, 320), 6),
    OthersNetwork("PP-OCRv2 cls", "rapidocr_onnxruntime/ch_ppocr_mobile_v2.0_cls_infer.onnx", (1, 3, 48, 192), 3),
)


def others_runs() -> Iterator[OthersRun]:
    """Compile and simulate each network in fp16. Raises InstallationError if the packages cannot be installed."""
    files = {file.name: file.path for file in installed()}
    for network in NETWORKS:
        with TemporaryDirectory() as folder:
            yield _run(network, files[network.file], Path(folder))


def _run(network: OthersNetwork, model: Path, folder: Path) -> OthersRun:
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    picture = _picture(network.shape)
    wanted = dict(zip((each.name for each in session.get_outputs()), session.run(None, {name: picture}), strict=True))
    target = target_options("", "cn10ka", None, None, False)
    request = CompilationRequest(model, target, read_profile(), shapes={name: network.shape})
    plan = compile_model(request, folder / "compiled").plan
    write_arrays(folder / "input.npz", {name: picture})
    result = simulate(open_folder(folder / "compiled"), folder / "input.npz", compare=False)
    perf = network_perf(plan, result.simulators)
    pairs = [(result.outputs[each] - values, values) for each, values in wanted.items()]
    error = max(float(np.sqrt((distance**2).mean() / (values**2).mean())) for distance, values in pairs)
    largest = max(float(np.abs(distance).max() / np.abs(values).max()) for distance, values in pairs)
    layers = sum(len(subgraph.layers) for subgraph in plan.subgraphs)
    return OthersRun(network, len(plan.subgraphs), layers, perf.host, perf.hardware_ns, perf.whole_ns, error, largest)


def _picture(shape: tuple[int, int, int, int]) -> Array:
    """A line of digits in black on white, so that a detector of text finds something."""
    _, channels, height, width = shape
    plane = np.ones((height, width), np.float32)
    bits = np.array([[int(bit) for bit in row] for row in _DIGITS])
    ink = np.kron(bits, np.ones((_PIXELS, _PIXELS)))[: height - 2, : width - 2]
    top, left = (height - ink.shape[0]) // 2, (width - ink.shape[1]) // 2
    plane[top : top + ink.shape[0], left : left + ink.shape[1]] -= 2 * ink
    return np.broadcast_to(plane, (1, channels, height, width)).astype(np.float32)


def others_table(runs: Iterable[OthersRun]) -> Table:
    """Return a table with a row for each network."""
    table = Table("network", title="Networks of others, fp16 on 8 tiles")
    for name in ("subgraphs", "layers", "on the host", "accelerator, µs", "whole run, µs", "error", "largest error"):
        table.add_column(name, justify="right")
    for run in runs:
        table.add_row(
            run.network.title,
            str(run.subgraphs),
            str(run.layers),
            str(len(run.host)),
            f"{run.hardware_ns / 1000:,.1f}",
            f"{run.whole_ns / 1000:,.1f}",
            f"{run.error:.1e}",
            f"{run.largest:.1e}",
        )
    return table


def others_aims(runs: Iterable[OthersRun]) -> Iterator[Aim]:
    """Yield the aims: how few subgraphs, and how near to ONNX Runtime."""
    for run in runs:
        yield Aim(f"{run.network.title}: subgraphs", run.subgraphs, run.network.most_subgraphs, "")
        yield Aim(f"{run.network.title}: error", run.error, _TOLERANCE, "")
