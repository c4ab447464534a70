"""``python -m benchmarks.ort``: what a session of ONNX Runtime costs over nnhal's execution provider.

Its runs beside ONNX Runtime's own on the CPU and beside a binding of the client, small tensors and large ones, copied
and in place; its load beside ONNX Runtime's own and ``framework.load``. All ways take turns, and ONNX Runtime and the
device compute with equally many threads.

``--weights 128`` only loads a model with so many MB of weights, in a file of their own and in the model's, and tells
how much memory each load takes: by how much the resident memory of client, framework and devices rises at most, added
up. Pages that they share count in each.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import nnhal_ort
from nnhal.arrays import Array
from nnhal_client import Framework, connect
from nnhal_hosting.own_memory import return_freed_memory
from nnhal_tools.up import DeviceEntry, Testbed, Topology
from tests.support.processes import WARM

_DEMO = Path(__file__).parents[1] / "tools/nnhal_tools/demo/data"
_DEVICE = "cpu_acc"
_ELEMENTS = 1 << 20
"""Of a large tensor: 4 MB."""
_RUNS = 20
"""In a block of the same."""
_SPIN_SECONDS = 0.04
"""ONNX Runtime's threads spin so long after a run, and would take a processor from what follows."""
_PLAIN = "CPUExecutionProvider"
_CPU, _BOUND, _LOAD = "ONNX Runtime alone", "bind().run()", "framework.load"
Way = Callable[[], object]


def main() -> None:
    """Print a table for the runs of each model, and one for loads."""
    parser = argparse.ArgumentParser("python -m benchmarks.ort", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="more files in ONNX to load")
    parser.add_argument("--runs", type=int, default=20, metavar="N", help="blocks of them")
    parser.add_argument("--loads", type=int, default=20, metavar="N", help="blocks of them")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), metavar="N", help="of each session")
    parser.add_argument("--weights", type=int, default=0, metavar="MB", help="only load a model with such weights")
    given = parser.parse_args()
    try:
        nnhal_ort.get_library_path()
    except FileNotFoundError:
        sys.exit("the provider is not built: run python frontends/ort_ep/build_library.py first")
    threads = given.threads
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        topology = Topology(device=(DeviceEntry(driver=_DEVICE, threads=threads),))
        bed = stack.enter_context(Testbed(topology, folder / "testbed", zygote=WARM))
        os.environ["NNHAL_FRAMEWORK"] = str(bed.framework)
        framework = stack.enter_context(connect(bed.framework))
        nnhal_ort.register()
        if given.weights:
            _show_weights(framework, folder, given.weights, given.loads, threads)
            return
        digits, root = _DEMO / "digits.onnx", folder / "root.onnx"
        root.write_bytes(_root().SerializeToString())
        runs = _runs(framework, digits, threads)
        _show("a run of the digits, µs", 1e6, _BOUND, _measured(runs, given.runs, _RUNS))
        runs = _runs(framework, root, threads)
        _show("4 MB in and out, µs", 1e6, _CPU, _measured(runs, given.runs, _RUNS))
        del runs
        for size in (1, 16):
            (folder / f"{size} MB.onnx").write_bytes(_layers(size).SerializeToString())
        for file in (digits, _DEMO / "digits_int8.onnx", *sorted(folder.glob("*MB.onnx")), *given.files):
            loads = _measured(_loads(framework, file, threads), given.loads, 1)
            _show(f"a load of {file.stem}, ms", 1e3, _LOAD, loads)


def _show_weights(framework: Framework, folder: Path, megabytes: int, count: int, threads: int) -> None:
    processes = [os.getpid(), framework.calls.peer_pid, *(device.pid for device in framework.devices())]
    apart, inside = folder / "apart.onnx", folder / "inside.onnx"
    onnx.save_model(_layers(megabytes), apart, save_as_external_data=True, location="weights")
    onnx.save_model(_layers(megabytes), inside)
    return_freed_memory()
    before = sum(_resident(pid, "VmRSS") for pid in processes)
    for file in (apart, inside):
        ways = _loads(framework, file, threads)
        _show(f"{megabytes} MB of weights {file.stem}, ms", 1e3, _CPU, _measured(ways, count, 1))
        for name, way in ways.items():
            print(f"{name:34}{(_peak(processes, way) - before) / 2**20:10.0f} MB")


def _peak(processes: Sequence[int], way: Way) -> int:
    """The most bytes of processes that are resident while something is loaded."""
    return_freed_memory()
    for pid in processes:
        Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak is what it is now
    loaded = way()
    peak = sum(_resident(pid, "VmHWM") for pid in processes)
    del loaded
    return peak


def _resident(pid: int, field: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(field))


def _session(file: Path, provider: str, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.disable_cpu_ep_fallback", str(int(provider != _PLAIN)))
    chosen = {"devices": _DEVICE} if provider == nnhal_ort.get_ep_name() else {}
    return onnxruntime.InferenceSession(file, options, providers=[(provider, chosen)])


def _runs(framework: Framework, file: Path, threads: int) -> dict[str, Way]:
    model = framework.load(file, devices=[_DEVICE])
    random = np.random.default_rng(0)
    inputs: dict[str, Array] = {
        tensor.name: random.random(tensor.dimensions).astype(np.float32) for tensor in model.inputs
    }
    binding = model.bind()
    for name, value in inputs.items():
        binding.inputs[name][...] = value
    plain, provided = (_session(file, name, threads) for name in (_PLAIN, nnhal_ort.get_ep_name()))
    placed = provided.io_binding()
    for tensor in (*model.inputs, *model.outputs):
        value = _in_place(tensor.dimensions)
        if tensor.name in inputs:
            value.numpy()[...] = inputs[tensor.name]
            placed.bind_ortvalue_input(tensor.name, value)
        else:
            placed.bind_ortvalue_output(tensor.name, value)
    return {
        _CPU: lambda: plain.run(None, inputs),
        _BOUND: binding.run,
        "session.run": lambda: provided.run(None, inputs),
        "session.run in place": lambda: provided.run_with_iobinding(placed),
    }


def _in_place(dimensions: Sequence[int]) -> Any:
    """A tensor in the provider's memory."""
    device = next(d for d in onnxruntime.get_ep_devices() if d.ep_name == nnhal_ort.get_ep_name())
    memory = device.memory_info(onnxruntime.OrtDeviceMemoryType.HOST_ACCESSIBLE)
    return onnxruntime.OrtValue.ortvalue_from_shape_and_type(dimensions, np.float32, memory_info=memory)


def _loads(framework: Framework, file: Path, threads: int) -> dict[str, Way]:
    return {
        _CPU: lambda: _session(file, _PLAIN, threads),
        _LOAD: lambda: framework.load(file, devices=[_DEVICE]).close(),
        "a session's load": lambda: _session(file, nnhal_ort.get_ep_name(), threads),
    }


def _root() -> onnx.ModelProto:
    return _model([helper.make_node("Sqrt", ["x"], ["y"])], [_ELEMENTS])


def _layers(megabytes: int) -> onnx.ModelProto:
    """Four layers whose weights are so large together."""
    width = int((megabytes * (1 << 20) / 16) ** 0.5)
    names = ["x", "a", "b", "c", "y"]
    nodes = [helper.make_node("Gemm", [names[i], f"w{i}"], [names[i + 1]]) for i in range(4)]
    random = np.random.default_rng(0)
    weights = {f"w{i}": random.standard_normal((width, width)).astype(np.float32) for i in range(4)}
    return _model(nodes, [1, width], weights)


def _model(
    nodes: Sequence[onnx.NodeProto], dimensions: Sequence[int], constants: Mapping[str, Array] | None = None
) -> onnx.ModelProto:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, dimensions) for name in "xy")
    initializers = [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()]
    graph = helper.make_graph(nodes, "graph", [x], [y], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _measured(ways: Mapping[str, Way], count: int, block: int) -> dict[str, list[float]]:
    """Seconds of ``count`` blocks of calls of each way, but for the first of each block, which finds the caches of
    another way. What a call returns ends outside of its time.
    """
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(count):
        for name, way in ways.items():
            time.sleep(_SPIN_SECONDS)
            for number in range(1 + block):
                begun = time.perf_counter()
                result = way()
                if number:
                    seconds[name].append(time.perf_counter() - begun)
                del result
    return seconds


def _show(title: str, scale: float, beside: str, seconds: Mapping[str, Sequence[float]]) -> None:
    """``beside`` is the way that the others' medians are divided by."""
    least = median(seconds[beside])
    print(f"{title:34}{'median':>10}{'least':>10}{'to ' + beside:>24}")
    for name, found in seconds.items():
        print(f"{name:34}{median(found) * scale:10.1f}{min(found) * scale:10.1f}{median(found) / least:24.2f}")


if __name__ == "__main__":
    main()
