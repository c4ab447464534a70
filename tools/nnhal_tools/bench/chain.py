"""What each further step of a plan costs: one model, cut into more and more steps over two processes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from nnhal.memory import create_ashmem, open_pool
from nnhal.types import (
    DataLocation,
    Model,
    Operand,
    OperandLifeTime,
    OperandType,
    Operation,
    OperationType,
    Subgraph,
)
from nnhal_client.binding import Binding
from nnhal_client.framework import Framework, connect
from nnhal_tools.bench.ping_pong import ping_pong
from nnhal_tools.bench.samples import Samples
from nnhal_tools.up import DeviceEntry, Testbed, Topology

MOST_STEPS = 8
_WARM_UP = 50
_WIDTH = 256
_DEVICES = ("acc0", "acc1")
F32 = OperandType.TENSOR_FLOAT32


@dataclass(frozen=True, slots=True)
class CutReport:
    """The model in a number of steps. Medians, nanoseconds."""

    steps: int
    """How many steps it has, which alternate between two processes."""
    run_ns: float
    """A run, from the client's call to its return."""
    own_ns: float
    """One step's own run on its device, the mean over the steps."""
    added_ns: float
    """What each step after the first adds to a run; 0 if there is only one."""
    floor_ratio: float
    """``added_ns`` to a socket ping-pong and the step's own run; 0 if there is only one."""


@dataclass(frozen=True, slots=True)
class ChainReport:
    """The cuts, and the floor."""

    rounds: int
    ping_pong_ns: float
    """64 bytes to another process and back."""
    cuts: tuple[CutReport, ...]

    def as_dict(self) -> dict[str, object]:
        """The report for JSON."""
        return asdict(self)


def measure_chain(counts: Sequence[int], rounds: int, measured: bool, advance: Callable[[], None]) -> ChainReport:
    """Measure each number of steps once in each round: direct runs, or with ``measured`` those that report times.

    Raises StartError or HalError.
    """
    topology = Topology(device=tuple(DeviceEntry(driver="cpu_acc", name=name) for name in _DEVICES))
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nnhal-")))
        testbed = stack.enter_context(Testbed(topology, directory))
        framework = stack.enter_context(connect(testbed.framework))
        ping = stack.enter_context(ping_pong())
        reporting = {count: _bound(framework, count, measure_timing=True) for count in counts}
        running = reporting if measured else {count: _bound(framework, count, measure_timing=False) for count in counts}
        own = {count: _own_ns(binding) for count, binding in reporting.items()}
        for _ in range(_WARM_UP):
            for action in (ping, *(binding.run for binding in running.values())):
                action()
        samples, floor = {count: Samples() for count in counts}, Samples()
        for _ in range(rounds):
            for count, binding in running.items():
                samples[count].measure(binding.run)
            floor.measure(ping)
            advance()
    return _report(rounds, floor.percentile(50), {count: samples[count].percentile(50) for count in counts}, own)


def _report(rounds: int, floor_ns: float, runs: dict[int, float], own: dict[int, float]) -> ChainReport:
    fewest = min(runs)
    cuts = []
    for count, run_ns in runs.items():
        added = (run_ns - runs[fewest]) / (count - fewest) if count > fewest else 0.0
        cuts.append(CutReport(count, run_ns, own[count], added, added / (floor_ns + own[count])))
    return ChainReport(rounds, floor_ns, tuple(cuts))


def _bound(framework: Framework, steps: int, measure_timing: bool) -> Binding:
    """The model, cut into steps of about as many operations each, that alternate between the devices."""
    pins = {
        f"name:operation{number}": _DEVICES[number * steps // MOST_STEPS % len(_DEVICES)]
        for number in range(MOST_STEPS)
    }
    model = framework.load_model(_layers(), pins=pins, fallback="deny")
    if len(model.steps) != steps:
        raise RuntimeError(f"the plan has {len(model.steps)} steps, expected {steps}")
    binding = model.bind(measure_timing=measure_timing)
    binding.fill({"input0": np.linspace(-1, 1, _WIDTH, dtype=np.float32)[np.newaxis]})
    return binding


def _own_ns(binding: Binding) -> float:
    """The median of a step's own run, the mean over the steps."""
    reports = [binding.run().steps for _ in range(_WARM_UP)]
    times = np.array([[step.time_in_driver_ns for step in steps] for steps in reports], float)
    return float(np.median(times, axis=0).mean())


def _layers() -> Model:
    """MOST_STEPS fully connected layers, one after the other, with the same weights."""
    size = _WIDTH * _WIDTH * 4
    weights = create_ashmem(size + _WIDTH * 4, "nnhal-bench")
    values = np.random.default_rng(3).normal(0, _WIDTH**-0.5, (_WIDTH, _WIDTH)).astype(np.float32)
    open_pool(weights, writable=True).write(0, values.reshape(-1).view(np.uint8))

    def constant(dimensions: tuple[int, ...], location: DataLocation) -> Operand:
        return Operand(F32, dimensions, lifetime=OperandLifeTime.CONSTANT_POOL, location=location)

    lifetimes = [
        OperandLifeTime.SUBGRAPH_INPUT,
        *[OperandLifeTime.TEMPORARY_VARIABLE] * (MOST_STEPS - 1),
        OperandLifeTime.SUBGRAPH_OUTPUT,
    ]
    operands = (
        constant((_WIDTH, _WIDTH), DataLocation(0, 0, size)),
        constant((_WIDTH,), DataLocation(0, size, _WIDTH * 4)),
        Operand(OperandType.INT32, lifetime=OperandLifeTime.CONSTANT_COPY, location=DataLocation(0, 0, 4)),
        *(Operand(F32, (1, _WIDTH), lifetime=lifetime) for lifetime in lifetimes),
    )
    operations = tuple(
        Operation(OperationType.FULLY_CONNECTED, (3 + layer, 0, 1, 2), (4 + layer,)) for layer in range(MOST_STEPS)
    )
    graph = Subgraph(operands, operations, (3,), (3 + MOST_STEPS,))
    return Model(graph, operand_values=bytes(4), pools=(weights,))
