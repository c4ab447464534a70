"""``nnhal bench hop``: what a hop from one process to another costs."""

from __future__ import annotations

from collections import defaultdict
from typing import Annotated

import numpy as np
import onnx
import onnxruntime
import typer
from onnx import TensorProto, helper

from nnhal.link.call_channel import call_channel_from
from nnhal.remote import BurstOutcome, RemoteDevice
from nnhal.remote.execution import burst_run
from nnhal.types import NO_DEADLINE, ExecutionConfig, Model
from nnhal_tools.bench.hal_models import layers, relu, request_for
from nnhal_tools.bench.ping_pong import ping_pong
from nnhal_tools.bench.runner import Action, Advance, Report, Samples, figure_table, in_turns, progress
from nnhal_tools.up import single_device

_WARM_UP = 50
_SETTLING = 5
"""Calls before each that is measured: the processes of an action slept during the others, and wake slowly at first."""
_TINY_ELEMENTS = 64
_SMALL_BYTES = 4 * 1024
_LARGE_BYTES = 64 * 1024 * 1024
_LONG_LAYERS = 64
"""Over a vector of 4 KiB: about as long as 64 MiB of RELU."""
_MEASURED = ExecutionConfig(measure_timing=True)
_PING, _IN_PROCESS = "ping-pong, 64 bytes", "in process"
_SHOWN = (50, 90, 99)


def hop(
    rounds: Annotated[int, typer.Option(help="Interleaved rounds; each measures everything once.", min=10)] = 2000,
    large_rounds: Annotated[int, typer.Option(help="Rounds with 64 MiB tensors.", min=1)] = 15,
) -> Report:
    """Measure a hop from one process to another.

    Small: a raw ping-pong of 64 bytes between two Python processes, and a tiny model in process, through a burst and
    through plain gRPC. Large: bursts with tensors of 4 KiB and 64 MiB against the same computation in process.
    """
    with single_device("cpu_acc", "nnhal-bench") as device, progress("hop", rounds + large_rounds) as advance:
        samples = _tiny(device, rounds, advance)
        overheads = _sizes(device, large_rounds, advance)
    floor = samples[_PING].percentile(50) + samples[_IN_PROCESS].percentile(50)
    ratios = {name: samples[name].percentile(50) / floor for name in ("direct run", "burst")}
    times = [(name, *(f"{each.percentile(p) / 1e3:.1f} µs" for p in _SHOWN)) for name, each in samples.items()]
    sizes = [
        (name, *(f"{each[key] / 1e3:.0f} µs" for key in ("compute", "overhead"))) for name, each in overheads.items()
    ]
    title = "What a burst takes over the computation itself, medians"
    return Report(
        [
            figure_table(f"A hop, {rounds} interleaved rounds", "what", "p50,p90,p99", times),
            figure_table(title, "tensors", "computation,a burst over it", sizes),
        ],
        remarks=[
            f"{name} / (ping-pong + in process), p50: {ratio:.2f}  (aim: at most 1.5)" for name, ratio in ratios.items()
        ],
        figures={
            "rounds": rounds,
            **{f"p{p}_ns": {name: each.percentile(p) for name, each in samples.items()} for p in _SHOWN},
            "burst_over_floor": ratios["burst"],
            "direct_over_floor": ratios["direct run"],
            "over_compute_ns": overheads,
        },
    )


def _tiny(device: RemoteDevice, rounds: int, advance: Advance) -> dict[str, Samples]:
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

    with ping_pong() as ping:
        ways: dict[str, Action] = {
            _PING: ping,
            _IN_PROCESS: _in_process(_TINY_ELEMENTS),
            "direct run": run_directly,
            "burst": lambda: burst.run(execution),
            "gRPC": lambda: prepared.execute(request),
        }
        return in_turns(ways, rounds, settling=_SETTLING, warm_up=_WARM_UP, advance=advance)


def _sizes(device: RemoteDevice, rounds: int, advance: Advance) -> dict[str, dict[str, float]]:
    """Return the medians of the time on the device, and of a burst beyond it, by size of tensors.

    A process that slept for long wakes more slowly, and a computation over much memory leaves cold caches. So 64 MiB
    are compared with 4 KiB both at their own length of computation and at the same length.
    """
    on_device: defaultdict[str, list[int]] = defaultdict(list)

    def note(name: str, outcome: BurstOutcome) -> None:
        on_device[name].append(outcome.result.timing.time_on_device_ns)

    ways = {
        "4 KiB": _burst(device, relu(_SMALL_BYTES // 4)),
        "4 KiB, as long a computation": _burst(device, layers(_LONG_LAYERS, _SMALL_BYTES // 4)),
        "64 MiB": _burst(device, relu(_LARGE_BYTES // 4)),
    }
    samples = in_turns(ways, rounds, warm_up=1, noted=note, advance=advance)
    return {
        name: {
            "overhead": float(np.median(np.subtract(each.values, on_device[name]))),
            "compute": float(np.median(on_device[name])),
        }
        for name, each in samples.items()
    }


def _burst(device: RemoteDevice, model: Model) -> Action:
    prepared = device.prepare_model(model)
    execution = prepared.create_reusable_execution(request_for(model), _MEASURED)
    burst = prepared.configure_execution_burst()
    return lambda: burst.run(execution)


def _in_process(elements: int) -> Action:
    """Return a run of the same model in this process, with the session options that cpu_acc uses."""
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
