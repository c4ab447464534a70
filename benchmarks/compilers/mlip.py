"""Networks of packages on the MLIP: subgraphs, what stays on the host, modelled time, and ONNX Runtime's results."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnxruntime
from rich.table import Table

from benchmarks.zoo.packages import installed
from nnhal.arrays import Array
from nnhal_mlip.command.compiling import CompilationRequest, compile_network, target_options
from nnhal_mlip.command.network_perf import network_perf
from nnhal_mlip.command.samples import write_arrays
from nnhal_mlip.command.simulation import simulate
from nnhal_mlip.program.program import TILE_COUNTS
from nnhal_mlip.timing.profile import read_profile
from nnhal_tools.bench.runner import Aim, figure_table, statement

_TOLERANCE = 2**-8
"""Of the error, of the root mean square of an output: 48 dB."""
_TILE_COLUMNS = ",".join(f"{tiles} tiles" for tiles in TILE_COUNTS)
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
class MlipNetwork:
    """A network of a package, and what is to be reached."""

    title: str
    file: str
    """As ``ModelFile.name``."""
    shape: tuple[int, int, int, int]
    most_subgraphs: int


@dataclass(frozen=True, slots=True)
class MlipRun:
    """The outcome of a network."""

    network: MlipNetwork
    subgraphs: int
    layers: int
    host: tuple[str, ...]
    hardware_ns: float
    whole_ns: float
    error: float
    """The root mean square of the distance from ONNX Runtime's results, relative to that of the results."""
    largest: float
    """The largest distance, relative to the largest value."""
    cycles: Mapping[int, tuple[int, int]]
    """Modelled cycles and their lower bound by the number of tiles."""


NETWORKS = (
    MlipNetwork("YOLOv8n", "nudenet/320n.onnx", (1, 3, 320, 320), 6),
    MlipNetwork("PP-OCRv4 det", "rapidocr_onnxruntime/ch_PP-OCRv4_det_infer.onnx", (1, 3, 320, 320), 6),
    MlipNetwork("PP-OCRv2 cls", "rapidocr_onnxruntime/ch_ppocr_mobile_v2.0_cls_infer.onnx", (1, 3, 48, 192), 3),
)


def mlip_runs(titles: Collection[str] = ()) -> Iterator[MlipRun]:
    """Compile and simulate each network in fp16; all, or those that are named.

    Raises InstallationError if the packages cannot be installed.
    """
    files = {file.name: file.path for file in installed()}
    for network in NETWORKS:
        if not titles or network.title in titles:
            yield _run(network, files[network.file])


def _run(network: MlipNetwork, model: Path) -> MlipRun:
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    picture = _picture(network.shape)
    wanted = dict(zip((each.name for each in session.get_outputs()), session.run(None, {name: picture}), strict=True))
    cycles = {}
    for tiles in TILE_COUNTS:  # the last one has all tiles
        with TemporaryDirectory() as name_of_folder:
            folder = Path(name_of_folder)
            target = target_options("", "cn10ka", tiles, None, False)
            request = CompilationRequest(model, target, read_profile(), shapes={name: network.shape})
            compiled = compile_network(request)
            write_arrays(folder / "input.npz", {name: picture})
            result = simulate(compiled, folder / "input.npz")
            perf = network_perf(compiled)
            cycles[tiles] = perf.cycles, perf.least
    pairs = [(result.outputs[each] - values, values) for each, values in wanted.items()]
    return MlipRun(
        network,
        len(compiled.binaries),
        sum(len(binary.report.layers) for binary in compiled.binaries),
        perf.host,
        perf.hardware_ns,
        perf.whole_ns,
        max(float(np.sqrt((distance**2).mean() / (values**2).mean())) for distance, values in pairs),
        max(float(np.abs(distance).max() / np.abs(values).max()) for distance, values in pairs),
        cycles,
    )


def _picture(shape: tuple[int, int, int, int]) -> Array:
    """Return a line of digits in black on white, so that a detector of text finds something."""
    _, channels, height, width = shape
    plane = np.ones((height, width), np.float32)
    bits = np.array([[int(bit) for bit in row] for row in _DIGITS])
    ink = np.kron(bits, np.ones((_PIXELS, _PIXELS)))[: height - 2, : width - 2]
    top, left = (height - ink.shape[0]) // 2, (width - ink.shape[1]) // 2
    plane[top : top + ink.shape[0], left : left + ink.shape[1]] -= 2 * ink
    return np.broadcast_to(plane, (1, channels, height, width)).astype(np.float32)


def mlip_tables(runs: Sequence[MlipRun]) -> list[Table]:
    """Return a table of results, and one of cycles, with a row for each network."""
    columns = "subgraphs,layers,on the host,accelerator µs,whole run µs,error,largest error"
    results = (
        (
            run.network.title,
            *(str(count) for count in (run.subgraphs, run.layers, len(run.host))),
            *(f"{time / 1000:,.1f}" for time in (run.hardware_ns, run.whole_ns)),
            *(f"{error:.1e}" for error in (run.error, run.largest)),
        )
        for run in runs
    )
    cycles = (
        (run.network.title, *(f"{own / 1e6:.2f} ({least / 1e6:.2f})" for own, least in run.cycles.values()))
        for run in runs
    )
    return [
        figure_table(f"Networks of packages, fp16 on {TILE_COUNTS[-1]} tiles", "network", columns, results),
        figure_table("Modelled Mcycles by tiles, and the least possible", "network", _TILE_COLUMNS, cycles),
    ]


def mlip_aims(runs: Iterable[MlipRun]) -> Iterator[Aim]:
    """Yield the aims: how few subgraphs, how near to ONNX Runtime, and that more tiles are never slower."""
    for run in runs:
        yield Aim(f"{run.network.title}: subgraphs", run.subgraphs, run.network.most_subgraphs, "")
        yield Aim(f"{run.network.title}: error", run.error, _TOLERANCE, "")
        slower = sum(more > fewer for (fewer, _), (more, _) in pairwise(run.cycles.values()))
        yield statement(f"{run.network.title}: more tiles are never slower", slower)
        faster = sum(cycles < least for cycles, least in run.cycles.values())
        yield statement(f"{run.network.title}: no run is faster than its bound", faster)
