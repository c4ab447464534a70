"""What a hop from one process to another costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from nnhal.link.call_channel import call_channel_from
from nnhal.memory import create_ashmem
from nnhal.remote import RemoteDevice
from nnhal.remote.execution import burst_run
from nnhal.types import (
    NO_DEADLINE,
    DataLocation,
    ExecutionConfig,
    Model,
    Operand,
    OperandLifeTime,
    OperandType,
    Operation,
    OperationType,
    Subgraph,
)
from nnhal_tools.bench.hal_models import relu, request_for
from nnhal_tools.bench.ping_pong import ping_pong
from nnhal_tools.bench.samples import Samples
from nnhal_tools.up import single_device

_WARM_UP = 50
_SETTLING = 5
"""Calls before each that is measured: the processes of an action slept during the others, and wake slowly at first."""
_LONG_LAYERS = 64
_TINY_ELEMENTS = 64
_SMALL_BYTES = 4 * 1024
_LARGE_BYTES = 64 * 1024 * 1024
_MEASURED = ExecutionConfig(measure_timing=True)


@dataclass(frozen=True, slots=True)
class Overhead:
    """Medians, nanoseconds: the time of a burst beyond the time on the device, and the time on the device."""

    over_compute_ns: float
    compute_ns: float


@dataclass(frozen=True, slots=True)
class HopReport:
    """The samples, and the overheads by size of tensors."""

    rounds: int
    samples: dict[str, Samples]
    overheads: dict[str, Overhead]

    @property
    def ratio(self) -> float:
        """The median of a burst over the sum of its parts: a ping-pong and the model in process."""
        return self._over_floor("burst")

    @property
    def direct_ratio(self) -> float:
        """The same of a direct run."""
        return self._over_floor("direct run")

    def _over_floor(self, name: str) -> float:
        floor = self.samples["ping-pong, 64 bytes"].percentile(50) + self.samples["in process"].percentile(50)
        return self.samples[name].percentile(50) / floor

    def as_dict(self) -> dict[str, object]:
        """The report for JSON."""
        return {
            "rounds": self.rounds,
            "p50_ns": {name: sample.percentile(50) for name, sample in self.samples.items()},
            "p90_ns": {name: sample.percentile(90) for name, sample in self.samples.items()},
            "p99_ns": {name: sample.percentile(99) for name, sample in self.samples.items()},
            "burst_over_floor": self.ratio,
            "direct_over_floor": self.direct_ratio,
            "over_compute_ns": {
                name: {"overhead": overhead.over_compute_ns, "compute": overhead.compute_ns}
                for name, overhead in self.overheads.items()
            },
        }


def measure_hop(rounds: int, large_rounds: int, advance: Callable[[], None]) -> HopReport:
    """Measure everything once in each round. Raises StartError or HalError."""
    with single_device("cpu_acc", "nnhal-bench") as device:
        samples = _tiny(device, rounds, advance)
        overheads = _sizes(device, large_rounds, advance)
    return HopReport(rounds, samples, overheads)


def _tiny(device: RemoteDevice, rounds: int, advance: Callable[[], None]) -> dict[str, Samples]:
    model = relu(_TINY_ELEMENTS)
    prepared = device.prepare_model(model)
    request = request_for(model)
    execution = prepared.create_reusable_execution(request)
    burst = prepared.configure_execution_burst()
    direct = prepared.create_reusable_execution(request_for(model))
    run_channel = call_channel_from(direct.open_run_channel(), prepared.calls.numbers_answers)
    call = burst_run(direct.handle, NO_DEADLINE)

    def run_directly() -> bytes:
        run_channel.send(call)
        return run_channel.receive()

    in_process = _in_process(_TINY_ELEMENTS)
    with ping_pong() as ping:
        actions: dict[str, Callable[[], object]] = {
            "ping-pong, 64 bytes": ping,
            "in process": in_process,
            "direct run": run_directly,
            "burst": lambda: burst.run(execution),
            "gRPC": lambda: prepared.execute(request),
        }
        for _ in range(_WARM_UP):
            for action in actions.values():
                action()
        samples = {name: Samples() for name in actions}
        for _ in range(rounds):
            for name, action in actions.items():
                for _ in range(_SETTLING):
                    action()
                samples[name].measure(action)
            advance()
    return samples


def _sizes(device: RemoteDevice, rounds: int, advance: Callable[[], None]) -> dict[str, Overhead]:
    """Measure a burst beyond its time on the device, by size of tensors and length of computation.

    A process that slept for long wakes more slowly, and a computation over much memory leaves cold caches. So 64 MiB
    are compared with 4 KiB both at their own length of computation and at the same length.
    """
    runs = {
        "4 KiB": _measured_run(device, relu(_SMALL_BYTES // 4)),
        "4 KiB, as long a computation": _measured_run(device, _long_model()),
        "64 MiB": _measured_run(device, relu(_LARGE_BYTES // 4)),
    }
    for run in runs.values():
        run()
    samples: dict[str, list[tuple[int, int]]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            samples[name].append(run())
        advance()
    return {
        name: Overhead(*(float(np.median(column)) for column in zip(*values, strict=True)))
        for name, values in samples.items()
    }


def _measured_run(device: RemoteDevice, model: Model) -> Callable[[], tuple[int, int]]:
    """A burst that returns (time beyond the time on the device, time on the device), nanoseconds."""
    prepared = device.prepare_model(model)
    execution = prepared.create_reusable_execution(request_for(model), _MEASURED)
    burst = prepared.configure_execution_burst()

    def run() -> tuple[int, int]:
        started = perf_counter_ns()
        outcome = burst.run(execution)
        took = perf_counter_ns() - started
        on_device = outcome.result.timing.time_on_device_ns
        return took - on_device, on_device

    return run


def _long_model() -> Model:
    """A chain of matrix products over a vector of 4 KiB: about as long as 64 MiB of RELU."""
    width = _SMALL_BYTES // 4
    weights = create_ashmem(width * width * 4, "nnhal-bench")
    size = width * width * 4

    def tensor(lifetime: OperandLifeTime) -> Operand:
        return Operand(OperandType.TENSOR_FLOAT32, (1, width), lifetime=lifetime)

    operands = [
        Operand(
            OperandType.TENSOR_FLOAT32,
            (width, width),
            lifetime=OperandLifeTime.CONSTANT_POOL,
            location=DataLocation(0, 0, size),
        ),
        Operand(
            OperandType.TENSOR_FLOAT32,
            (width,),
            lifetime=OperandLifeTime.CONSTANT_POOL,
            location=DataLocation(0, 0, width * 4),
        ),
        Operand(OperandType.INT32, lifetime=OperandLifeTime.CONSTANT_COPY, location=DataLocation(0, 0, 4)),
        tensor(OperandLifeTime.SUBGRAPH_INPUT),
        *(tensor(OperandLifeTime.TEMPORARY_VARIABLE) for _ in range(_LONG_LAYERS - 1)),
        tensor(OperandLifeTime.SUBGRAPH_OUTPUT),
    ]
    operations = tuple(
        Operation(OperationType.FULLY_CONNECTED, (3 + layer, 0, 1, 2), (4 + layer,)) for layer in range(_LONG_LAYERS)
    )
    graph = Subgraph(tuple(operands), operations, (3,), (len(operands) - 1,))
    return Model(graph, operand_values=bytes(4), pools=(weights,))


def _in_process(elements: int) -> Callable[[], object]:
    """The same model in this process, with the session options that cpu_acc uses."""
    shape = [1, elements]
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "relu",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=onnx.IR_VERSION_2023_5_5)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    x, y = np.zeros(shape, np.float32), np.empty(shape, np.float32)
    binding.bind_input("x", "cpu", 0, np.float32, shape, x.ctypes.data)
    binding.bind_output("y", "cpu", 0, np.float32, shape, y.ctypes.data)

    def run(_memory: object = (x, y)) -> None:
        session.run_with_iobinding(binding)

    return run
