"""``python -m benchmarks.zoo.stages FILE…``: where the milliseconds of a load go.

Processor time of each stage of a load by cpu_acc with cpu_ref beside it, one after the other in this process: the least
of some rounds. In nnhal the stages are in three processes, and calls over gRPC and the link come on top: the last row
is such a load as its client sees it, in wall time. Files in ONNX that cpu_acc takes as they are are loaded so, or in
operations if that is asked for; it prepares them while the framework checks them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NoReturn, TypeVar

import typer

from benchmarks.__main__ import run
from benchmarks.testbeds import framework_over
from benchmarks.zoo.packages import ModelFile
from benchmarks.zoo.runtimes import TWO_DEVICES, in_process
from nnhal.codec import graphs_to_wire, model_from_wire
from nnhal.resolved import propagate_dimensions
from nnhal.types import Model
from nnhal.v1 import model_pb2
from nnhal_client import Framework
from nnhal_devices.cpu_acc.driver import CpuAcc
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.driver import Driver, DriverOptions, PrepareOptions
from nnhal_devices.host.sessions.models import ValidModel
from nnhal_frontends import DEFAULT_LIMITS, UncheckedFile, import_model
from nnhal_tools.bench.runner import Report, figure_table

T = TypeVar("T")
_THREADS = 1


class Stages:
    """The least times of stages, in milliseconds of processor time."""

    def __init__(self) -> None:
        self.times: dict[str, float] = {}

    def take(self, name: str, work: Callable[[], T]) -> T:
        """Do some work, and note what it takes."""
        start = time.process_time_ns()
        result = work()
        taken = (time.process_time_ns() - start) / 1e6
        self.times[name] = min(taken, self.times.get(name, taken))
        return result


def stages(
    files: Annotated[list[Path], typer.Argument(help="Models in ONNX or TFLite, a column each.")],
    rounds: Annotated[int, typer.Option(min=1)] = 9,
    operations: Annotated[
        bool, typer.Option("--operations", help="Import all files in operations, which devices are asked about.")
    ] = False,
) -> Report:
    """Measure the stages of a load: the least processor time of each stage."""
    models = [ModelFile(path.name, path) for path in files]
    found = []
    for file in models:
        times = Stages()
        for _ in range(rounds):
            load(file, times, operations)
        found.append(times.times)
    with framework_over(*TWO_DEVICES) as framework:
        for file, own in zip(models, found, strict=True):
            own["a load by a framework, wall"] = min(_loading(framework, file) for _ in range(rounds))
    rows = [
        (name, *(f"{own[name]:.1f}" if name in own else "" for own in found))
        for name in dict.fromkeys(name for own in found for name in own)
    ]
    return Report([figure_table("A load, ms", "stage", ",".join(file.name for file in models), rows)])


def _loading(framework: Framework, file: ModelFile) -> float:
    """Return the milliseconds of wall time until a file is loaded."""
    start = time.perf_counter_ns()
    model = framework.load(file.path)
    taken = (time.perf_counter_ns() - start) / 1e6
    model.unload()
    return taken


def load(file: ModelFile, stages: Stages, in_operations: bool = False) -> None:
    """Go through the stages once. Raises as they do."""
    stages.take("the runtime alone", lambda: in_process(file))
    content = file.path.read_bytes()
    if file.is_onnx and not in_operations:
        unchecked = stages.take(
            "framework: the file as it declares itself", lambda: UncheckedFile.read(content, {}, DEFAULT_LIMITS, {})
        )
        found = None if unchecked is None else stages.take("framework, meanwhile: its check", unchecked.checked)
        if found is not None:
            _prepare(found.model, CpuAcc(DriverOptions(threads=_THREADS)), stages)
            return
    imported = stages.take("framework: import", lambda: import_model(content))
    model = imported.model
    stages.take("framework: dimensions", lambda: propagate_dimensions(imported.resolved()))
    graphs = stages.take("framework: the question encoded", lambda: graphs_to_wire(model))
    cpu = CpuAcc(DriverOptions(threads=_THREADS))
    for driver in (cpu, CpuRef()):
        _ask(driver, model, graphs, f"{driver.name}: ", stages)
    source, main_graph = imported.source, model.main
    words = None
    if source is not None:
        words = stages.take(
            "framework: the step in words of the file",
            lambda: source.model_of(model, main_graph.input_indexes, main_graph.output_indexes),
        )
    _prepare(words or model, cpu, stages)


def _prepare(model: Model, cpu: CpuAcc, stages: Stages) -> None:
    name = f"{cpu.name}, preparing: "
    graphs = stages.take(f"{name}encoding", lambda: graphs_to_wire(model))
    received = _received(model, graphs, name, stages)
    stages.take(f"{name}what can be foreseen", lambda: cpu.foreseen_support(received.resolved))
    stages.take(f"{name}the session", lambda: cpu.prepare(received.resolved, PrepareOptions()))


def _ask(driver: Driver, model: Model, graphs: bytes, name: str, stages: Stages) -> None:
    valid = _received(model, graphs, name, stages)
    stages.take(f"{name}support", lambda: driver.supported_operations(valid.resolved))
    stages.take(f"{name}costs", lambda: driver.backend.operation_ns(valid.resolved))


def _received(model: Model, graphs: bytes, name: str, stages: Stages) -> ValidModel:
    """Decode a model and check it, as a device does. Pools are taken as they are."""

    def decoded() -> Model:
        return replace(model_from_wire(model_pb2.Model.FromString(graphs), _no_pool), pools=model.pools)

    found = stages.take(f"{name}decoding", decoded)
    return stages.take(f"{name}validation", lambda: ValidModel.of(found))


def _no_pool(_: int) -> NoReturn:
    raise LookupError("the pools are left out")


if __name__ == "__main__":
    run(stages, "zoo.stages")
