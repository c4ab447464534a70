"""Compile a network: for each subgraph its files, its binary and its memory map."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from nnhal_mlip.command.calibration import ValueRanges, calibrate
from nnhal_mlip.command.model_file import FlowModel, read_flow_model
from nnhal_mlip.command.partition_report import share
from nnhal_mlip.command.samples import read_samples
from nnhal_mlip.compiler.compiler import CompiledSubgraph, compile_files
from nnhal_mlip.compiler.compiler_options import MlipCompilerOptions
from nnhal_mlip.costs import node_host_ns
from nnhal_mlip.flow.files.describing import describe
from nnhal_mlip.flow.files.options import MlipTargetOptions, parse_options
from nnhal_mlip.flow.files.subgraph_files import SubgraphFiles
from nnhal_mlip.flow.flow_partition import FlowOptions, FlowPartition, FlowSubgraph
from nnhal_mlip.flow.partition.cutting import steps
from nnhal_mlip.simulator.report import PerfReport, perf_report
from nnhal_mlip.simulator.simulator import Simulator
from nnhal_mlip.timing.profile import TimingProfile
from nnhal_mlip.timing.queues import ProgramTimeline, timeline

_CALIBRATION = "calibration.json"


@dataclass(frozen=True, slots=True)
class CompilationRequest:
    """Options of one call of the command."""

    model: Path
    target: MlipTargetOptions
    profile: TimingProfile
    sharing: FlowOptions = field(default_factory=FlowOptions)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    calibration: tuple[Path, ...] = ()
    """Files and directories with samples of the inputs."""


class HostStep(NamedTuple):
    """An operator of the host."""

    name: str
    """The user's name of the node."""
    ns: float
    """Modelled."""


@dataclass(frozen=True, slots=True)
class CompiledBinary:
    """A subgraph, and the binary that was made of it."""

    subgraph: FlowSubgraph
    quantize: str
    """fp16 or int8."""
    files: SubgraphFiles
    compiled: CompiledSubgraph
    times: ProgramTimeline
    report: PerfReport
    """Where the modelled time of a run goes."""

    @property
    def symbol(self) -> str:
        return self.subgraph.symbol

    def write(self, folder: Path) -> Iterator[str]:
        """Write its files, and yield their names."""
        yield from (path.name for path in self.files.write(folder))
        name = f"{self.symbol}.bin"
        (folder / name).write_bytes(self.compiled.binary)
        yield name
        yield _write(folder, f"{self.symbol}-memory.json", [asdict(each) for each in self.compiled.memory])

    def as_dict(self) -> dict[str, Any]:
        """Return what JSON has of it."""
        return {
            "symbol": self.symbol,
            "inputs": self.subgraph.inputs,
            "outputs": self.subgraph.outputs,
            "quantize": self.quantize,
            "tiles": self.compiled.program.tiles,
            "cycles": self.compiled.cycles,
            "layers": [asdict(layer) for layer in self.report.layers],
        }


@dataclass(frozen=True, slots=True)
class CompiledNetwork:
    """A network that can run: binaries, and what the host computes."""

    request: CompilationRequest
    model: FlowModel
    partition: FlowPartition
    binaries: tuple[CompiledBinary, ...]
    samples: int
    ranges: ValueRanges
    """The ranges of the samples; empty if none were needed."""

    @property
    def steps(self) -> list[CompiledBinary | HostStep]:
        """The binaries and the operators of the host, in the order in which they run."""
        graph, profile = self.partition.graph, self.request.profile
        binaries = {binary.symbol: binary for binary in self.binaries}
        return [
            binaries[step.symbol]
            if isinstance(step, FlowSubgraph)
            else HostStep(step.name, node_host_ns(graph, step, profile))
            for step in steps(self.partition)
        ]

    @property
    def host(self) -> list[HostStep]:
        """The operators of the host, in the order in which they run."""
        return [step for step in self.steps if isinstance(step, HostStep)]

    def simulators(self) -> dict[str, Simulator]:
        """Load the binaries, by their symbols."""
        profile = self.request.profile
        return {binary.symbol: Simulator(binary.compiled.binary, profile) for binary in self.binaries}

    def write(self, folder: Path) -> list[str]:
        """Write all files into a folder, which is made if it is not there, in place of those of an earlier compilation.

        Returns their names. Raises OSError.
        """
        folder.mkdir(parents=True, exist_ok=True)
        for stale in (*folder.glob("tvmgen_mrvl_main_[0-9]*"), folder / _CALIBRATION):
            stale.unlink(missing_ok=True)
        names = [name for binary in self.binaries for name in binary.write(folder)]
        if self.ranges:
            ranges = {name: list(ends) for name, ends in self.ranges.items()}
            names.append(_write(folder, _CALIBRATION, {"schema": 1, "samples": self.samples, "ranges": ranges}))
        return names

    def as_dict(self) -> dict[str, Any]:
        """Return what JSON has of it."""
        return {
            "model": self.model.name,
            "modelled": True,
            "profile": self.request.profile.name,
            "target": asdict(self.request.target),
            "host": [step.name for step in self.host],
            "subgraphs": [binary.as_dict() for binary in self.binaries],
        }


def _write(folder: Path, name: str, content: object) -> str:
    (folder / name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return name


def target_options(
    mattr: str, mcpu: str, num_tiles: int | None, quantize: str | None, wb_pin_ocm: bool
) -> MlipTargetOptions:
    """Return what the public flow's words and the options beside them say. Raises ValueError that lists the known."""
    words = [mattr]
    if quantize is not None:
        words.append(f"-quantize={quantize}")
    if wb_pin_ocm:
        words.append("-wb_pin_ocm=1")
    return parse_options(" ".join(words), mcpu, num_tiles)


def compile_network(request: CompilationRequest) -> CompiledNetwork:
    """Compile a model.

    Raises:
        OSError: a file cannot be read.
        NnhalError, ValueError: the model, the options or the samples are not what they have to be, or something does
            not fit.
    """
    model = read_flow_model(request.model, request.shapes, not request.sharing.beyond_public)
    target = request.target
    found = share(model.graph, request.sharing, request.profile, target.num_tiles, target.wb_pin_ocm)
    model = replace(model, graph=found.graph)  # so that the weights are not there twice, in two layouts
    options = _options(request, found, {})
    samples = read_samples(request.calibration, model.inputs) if request.calibration else []
    ranges: ValueRanges = {}
    if any(each.quantize == "int8" for each in options.values()) and _floats(found, options):
        if not samples:
            names = ", ".join(f"'{port.name}'" for port in model.inputs)
            raise ValueError(
                f"{model.name}: int8 needs the ranges of its values, and got no samples; expected --calibrate FILE.npz "
                f"with arrays for {names}"
            )
        ranges = calibrate(model, found, samples)
        options = _options(request, found, ranges)
    binaries = tuple(_compile(found, subgraph, options[subgraph.symbol]) for subgraph in found.subgraphs)
    return CompiledNetwork(request, model, found, binaries, len(samples), ranges)


def _options(request: CompilationRequest, found: FlowPartition, ranges: ValueRanges) -> dict[str, MlipCompilerOptions]:
    """The options of each subgraph, by its symbol. 8-bit models have scales, and need no ranges."""
    target = request.target
    return {
        subgraph.symbol: MlipCompilerOptions(
            quantize="int8" if is_quantised or target.quantize == "int8" else "fp16",
            num_tiles=target.num_tiles,
            wb_pin_ocm=target.wb_pin_ocm,
            ranges={} if is_quantised else ranges,
            profile=request.profile,
        )
        for subgraph in found.subgraphs
        for is_quantised in [_is_quantised(found, subgraph)]
    }


def _is_quantised(found: FlowPartition, subgraph: FlowSubgraph) -> bool:
    """Return whether the user's model has 8-bit values there, with scales of its own."""
    return any(found.graph.values[kernel.output].scales for kernel in subgraph.kernels)


def _floats(found: FlowPartition, options: Mapping[str, MlipCompilerOptions]) -> bool:
    """Return whether a subgraph is to be quantised that the user's model has in floats."""
    return any(
        options[subgraph.symbol].quantize == "int8" and not _is_quantised(found, subgraph)
        for subgraph in found.subgraphs
    )


def _compile(found: FlowPartition, subgraph: FlowSubgraph, options: MlipCompilerOptions) -> CompiledBinary:
    files = describe(found, subgraph)
    compiled = compile_files(files, options)
    times = timeline(compiled.program, options.profile)
    report = perf_report(compiled.program, times, options.profile, options.page_bytes)
    return CompiledBinary(subgraph, options.quantize, files, compiled, times, report)
