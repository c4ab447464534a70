"""What the HAL costs on a real network: the framework on one device against ONNX Runtime alone, in paired runs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter_ns

import numpy as np
import onnx
import onnxruntime

from nnhal_client.framework import Framework, connect
from nnhal_tools.bench.mobilenet import INPUT, SHAPE, mobilenet_v2, quantized
from nnhal_tools.up import DeviceEntry, Testbed, Topology

_WARM_UP = 3


@dataclass(frozen=True, slots=True)
class NetworkReport:
    """Medians over paired runs; ratios are medians of the ratios of the pairs."""

    name: str
    """Name of the network."""
    alone_ns: float
    """ONNX Runtime alone."""
    hal_ns: float
    """From ringing the device to its answer."""
    hal_ratio: float
    """``hal_ns`` to ``alone_ns``."""
    client_ns: float
    """From the client's call to its return."""
    client_ratio: float
    """``client_ns`` to ``alone_ns``."""
    largest_difference: float
    """Between an output and that of ONNX Runtime alone."""


def measure_networks(device: str, threads: int, rounds: int, advance: Callable[[], None]) -> list[NetworkReport]:
    """Measure both versions of the network, with equal threads on both sides. Raises StartError or HalError."""
    floating = mobilenet_v2()
    models = {"MobileNet V2 float32": floating, "MobileNet V2 int8 QDQ": quantized(floating)}
    topology = Topology(device=(DeviceEntry(driver=device, threads=threads),))
    with (
        tempfile.TemporaryDirectory(prefix="nnhal-") as directory,
        Testbed(topology, Path(directory)) as testbed,
        connect(testbed.framework) as framework,
    ):
        return [
            _measure(framework, name, model, Path(directory), threads, rounds, advance)
            for name, model in models.items()
        ]


def _measure(
    framework: Framework,
    name: str,
    model: onnx.ModelProto,
    directory: Path,
    threads: int,
    rounds: int,
    advance: Callable[[], None],
) -> NetworkReport:
    path = directory / "network.onnx"
    onnx.save(model, path)
    image = np.random.default_rng(2).random(SHAPE, np.float32)
    loaded = framework.load(path)
    binding = loaded.bind(measure_timing=True)
    binding.fill({INPUT: image})
    (output,) = binding.outputs.values()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    own = session.io_binding()
    result = np.empty(output.shape, np.float32)
    own.bind_input(INPUT, "cpu", 0, np.float32, SHAPE, image.ctypes.data)
    own.bind_output(session.get_outputs()[0].name, "cpu", 0, np.float32, result.shape, result.ctypes.data)
    pairs = []
    for number in range(_WARM_UP + rounds):
        started = perf_counter_ns()
        report = binding.run()
        client = perf_counter_ns() - started
        started = perf_counter_ns()
        session.run_with_iobinding(own)
        alone = perf_counter_ns() - started
        if number >= _WARM_UP:
            pairs.append((sum(step.duration_ns for step in report.steps), client, alone))
            advance()
    difference = float(np.abs(output - result).max())
    loaded.unload()
    return NetworkReport(
        name=name,
        alone_ns=median(alone for _, _, alone in pairs),
        hal_ns=median(hal for hal, _, _ in pairs),
        hal_ratio=median(hal / alone for hal, _, alone in pairs),
        client_ns=median(client for _, client, _ in pairs),
        client_ratio=median(client / alone for _, client, alone in pairs),
        largest_difference=difference,
    )
