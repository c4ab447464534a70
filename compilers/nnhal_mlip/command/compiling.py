"""Compile a network into a folder: the plan, and for each subgraph its files, its binary and its memory map."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from nnhal.given_files import MOST_MODEL_BYTES, read_given_file
from nnhal_frontends.tflite_identifier import is_tflite
from nnhal_mlip.command.calibration import ValueRanges, calibrate
from nnhal_mlip.command.model_file import FlowPort, parsed_onnx, read_flow_model
from nnhal_mlip.command.plan_file import (
    PLAN_FILE,
    MlipPlan,
    PlanFileError,
    PlannedFile,
    PlannedLayer,
    PlannedPort,
    PlannedStep,
    PlannedSubgraph,
    PlannedTarget,
    planned,
    profile_figures,
    read_plan,
)
from nnhal_mlip.command.samples import read_samples
from nnhal_mlip.command.sharing import SharingChoices, share
from nnhal_mlip.compiler.compiler import CompiledSubgraph, compile_files
from nnhal_mlip.compiler.compiler_options import MlipCompilerOptions
from nnhal_mlip.costs import node_host_ns
from nnhal_mlip.flow.files.describing import describe
from nnhal_mlip.flow.files.options import MlipTargetOptions, parse_options
from nnhal_mlip.flow.files.subgraph_files import SubgraphFiles
from nnhal_mlip.flow.flow_partition import FlowPartition, FlowSubgraph
from nnhal_mlip.flow.partition.cutting import steps
from nnhal_mlip.simulator.report import perf_report
from nnhal_mlip.timing.profile import TimingProfile
from nnhal_mlip.timing.queues import timeline


@dataclass(frozen=True, slots=True)
class CompilationRequest:
    """What a user wants."""

    model: Path
    target: MlipTargetOptions
    profile: TimingProfile
    sharing: SharingChoices = field(default_factory=SharingChoices)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    calibration: tuple[Path, ...] = ()
    """Files and directories with samples of the inputs."""


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


def compile_model(request: CompilationRequest, folder: Path) -> MlipPlan:
    """Compile a model into a folder, which is made if it is not there. Return the plan that is written.

    Raises:
        OSError: a file cannot be read or written.
        NnhalError, ValueError: the model, the options or the samples are not what they have to be, or something does
            not fit.
    """
    model = read_flow_model(request.model, request.shapes, request.sharing.public)
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
    compiled = [_compile(found, subgraph, options[subgraph.symbol]) for subgraph in found.subgraphs]
    file_name, content = model_copy(request.model)
    folder.mkdir(parents=True, exist_ok=True)
    _clear(folder)
    (folder / file_name).write_bytes(content)
    del content
    subgraphs = []
    while compiled:  # none of them is needed once it is written
        subgraphs.append(_written(compiled.pop(0), folder))
    plan = MlipPlan(
        schema=2,
        model_name=request.model.name,
        model=planned(folder, file_name),
        shapes=dict(request.shapes),
        sharing=request.sharing,
        target=PlannedTarget(**asdict(target)),
        profile=profile_figures(request.profile),
        inputs=_ports(model.inputs),
        outputs=_ports(model.outputs),
        steps=_steps(found, request.profile),
        subgraphs=tuple(subgraphs),
        calibration=_write(folder, "calibration.json", _calibration(len(samples), ranges)) if ranges else None,
    )
    (folder / PLAN_FILE).write_text(plan.model_dump_json(by_alias=True, indent=1) + "\n", encoding="utf-8")
    return plan


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


class _Made(NamedTuple):
    subgraph: FlowSubgraph
    options: MlipCompilerOptions
    files: SubgraphFiles
    compiled: CompiledSubgraph


def _compile(found: FlowPartition, subgraph: FlowSubgraph, options: MlipCompilerOptions) -> _Made:
    files = describe(found, subgraph)
    return _Made(subgraph, options, files, compile_files(files, options))


def _written(made: _Made, folder: Path) -> PlannedSubgraph:
    symbol, compiled = made.subgraph.symbol, made.compiled
    nodes, constants = made.files.write(folder)
    (folder / f"{symbol}.bin").write_bytes(compiled.binary)
    return PlannedSubgraph(
        symbol=symbol,
        inputs=made.subgraph.inputs,
        outputs=made.subgraph.outputs,
        quantize=made.options.quantize,
        tiles=compiled.program.tiles,
        cycles=compiled.cycles,
        nodes=planned(folder, nodes.name),
        constants=planned(folder, constants.name),
        binary=planned(folder, f"{symbol}.bin"),
        memory=_write(folder, f"{symbol}-memory.json", [asdict(each) for each in compiled.memory]),
        layers=_layers(compiled, made.options),
    )


def _layers(compiled: CompiledSubgraph, options: MlipCompilerOptions) -> tuple[PlannedLayer, ...]:
    program = compiled.program
    report = perf_report(program, timeline(program, options.profile), options.profile, options.page_bytes)
    return tuple(
        PlannedLayer(
            name=layer.name,
            kind=layer.kind,
            user_names=layer.user_names,
            split="rows" if layer.split == "rows" else "channels",
            tiles=layer.tiles_used,
            stripes=layer.stripes,
            spills=layer.spills,
            macs=layer.counters.macs,
            weight_bytes=record.weight_bytes,
            ddr_bytes=layer.counters.ddr_bytes,
            pages=max(layer.pages, default=0),
            cycles=layer.cycles,
        )
        for layer, record in zip(report.layers, program.layers, strict=True)
    )


def _steps(found: FlowPartition, profile: TimingProfile) -> tuple[PlannedStep, ...]:
    return tuple(
        PlannedStep(subgraph=step.symbol)
        if isinstance(step, FlowSubgraph)
        else PlannedStep(host=step.name, output=step.output, host_ns=node_host_ns(found.graph, step, profile))
        for step in steps(found)
    )


def _ports(ports: Sequence[FlowPort]) -> tuple[PlannedPort, ...]:
    return tuple(PlannedPort(name=port.name, shape=port.shape, type=port.element_type.name) for port in ports)


def _calibration(samples: int, ranges: ValueRanges) -> dict[str, object]:
    return {"schema": 1, "samples": samples, "ranges": {name: list(ends) for name, ends in ranges.items()}}


def _write(folder: Path, name: str, content: object) -> PlannedFile:
    (folder / name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return planned(folder, name)


def _clear(folder: Path) -> None:
    """Remove what an earlier compilation has left; the plan first, so that no plan is there with other files."""
    try:
        stale = [each.file for each in read_plan(folder).files]
    except (OSError, PlanFileError):
        stale = []
    for name in (PLAN_FILE, *stale):
        (folder / name).unlink(missing_ok=True)


def model_copy(source: Path) -> tuple[str, bytes]:
    """Return the name and the bytes of a copy. An ONNX model has the data in it that it had in other files.

    Raises OSError, and ValueError if it is no regular file.
    """
    content = read_given_file(source, MOST_MODEL_BYTES, "a model")
    return ("model.tflite", content) if is_tflite(content) else ("model.onnx", _whole(source, content))


def _whole(source: Path, content: bytes) -> bytes:
    if b"location" not in content:  # the key of the place of data in other files
        return content
    whole: bytes = parsed_onnx(source, content).SerializeToString()
    return whole
