"""``python -m benchmarks.ort``: what a session of ONNX Runtime costs over nnhal's execution provider.

Its runs beside ONNX Runtime's own on the CPU and beside a binding of the client, small tensors and large ones, copied
and in place; its load beside ONNX Runtime's own and ``framework.load``. All ways take turns, and ONNX Runtime and the
device compute with equally many threads.

``--weights 128`` only loads a model with so many MB of weights, in a file of their own and in the model's, and tells
how much memory each load takes: by how much the resident memory of client, framework and devices rises at most, added
up. Pages that they share count in each.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import onnx
import onnxruntime
import typer
from onnx import helper
from rich.table import Table

import nnhal_ort
from benchmarks.__main__ import run
from benchmarks.models import onnx_model
from benchmarks.testbeds import framework_over, processes_of
from nnhal.arrays import Array
from nnhal_client import Framework
from nnhal_hosting.own_memory import return_freed_memory
from nnhal_tools.bench.runner import Action, Report, figure_table, in_turns, time_table
from nnhal_tools.up import DeviceEntry

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


def ort(
    files: Annotated[list[Path] | None, typer.Argument(help="More files in ONNX to load.")] = None,
    runs: Annotated[int, typer.Option(metavar="N", help="Blocks of them.", min=1)] = 20,
    loads: Annotated[int, typer.Option(metavar="N", help="Blocks of them.", min=1)] = 20,
    threads: Annotated[int, typer.Option(metavar="N", help="Of each session; 0 for as many as processors.")] = 0,
    weights: Annotated[int, typer.Option(metavar="MB", help="Only load a model with such weights.")] = 0,
) -> Report:
    """Measure a session of ONNX Runtime over nnhal's execution provider: its runs, and its load."""
    try:
        nnhal_ort.get_library_path()
    except FileNotFoundError as error:
        raise ValueError("the provider is not built: run python frontends/ort_ep/build_library.py first") from error
    threads = threads or os.cpu_count() or 1
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        framework = stack.enter_context(framework_over(DeviceEntry(driver=_DEVICE, threads=threads)))
        os.environ["NNHAL_FRAMEWORK"] = str(framework.calls.endpoint.directory)
        nnhal_ort.register()
        if weights:
            return Report(list(_weight_tables(framework, folder, weights, loads, threads)))
        digits, root = _DEMO / "digits.onnx", folder / "root.onnx"
        onnx.save(onnx_model([helper.make_node("Sqrt", ["x"], ["y"])], {"x": [_ELEMENTS]}, {"y": [_ELEMENTS]}), root)
        tables = []
        for title, file, beside in (("a run of the digits", digits, _BOUND), ("4 MB in and out", root, _CPU)):
            samples = in_turns(_runs(framework, file, threads), runs * _RUNS, block=_RUNS, settling=1, around=_calm)
            tables.append(time_table(title, samples, beside))
        for size in (1, 16):
            onnx.save(_layers(size), folder / f"{size} MB.onnx")
        for file in (digits, _DEMO / "digits_int8.onnx", *sorted(folder.glob("*MB.onnx")), *(files or ())):
            samples = in_turns(_loads(framework, file, threads), loads, settling=1, around=_calm)
            tables.append(time_table(f"a load of {file.stem}", samples, _LOAD, "ms"))
    return Report(tables)


@contextmanager
def _calm(_: str) -> Iterator[None]:
    """Wait until the threads of the block before sleep."""
    time.sleep(_SPIN_SECONDS)
    yield


def _weight_tables(framework: Framework, folder: Path, megabytes: int, count: int, threads: int) -> Iterator[Table]:
    processes = processes_of(framework)
    apart, inside = folder / "apart.onnx", folder / "inside.onnx"
    onnx.save_model(_layers(megabytes), apart, save_as_external_data=True, location="weights")
    onnx.save_model(_layers(megabytes), inside)
    return_freed_memory()
    before = sum(_resident(pid, "VmRSS") for pid in processes)
    for file in (apart, inside):
        ways = _loads(framework, file, threads)
        samples = in_turns(ways, count, settling=1, around=_calm)
        yield time_table(f"{megabytes} MB of weights {file.stem}", samples, _CPU, "ms")
        peaks = [(name, f"{(_peak(processes, way) - before) / 2**20:.0f}") for name, way in ways.items()]
        yield figure_table(f"Resident at most, weights {file.stem}", "", "MB", peaks)


def _peak(processes: Sequence[int], way: Action) -> int:
    """Return the most bytes of processes that are resident while something is loaded."""
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


def _runs(framework: Framework, file: Path, threads: int) -> dict[str, Action]:
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
    """Return a tensor in the provider's memory."""
    device = next(d for d in onnxruntime.get_ep_devices() if d.ep_name == nnhal_ort.get_ep_name())
    memory = device.memory_info(onnxruntime.OrtDeviceMemoryType.HOST_ACCESSIBLE)
    return onnxruntime.OrtValue.ortvalue_from_shape_and_type(dimensions, np.float32, memory_info=memory)


def _loads(framework: Framework, file: Path, threads: int) -> dict[str, Action]:
    return {
        _CPU: lambda: _session(file, _PLAIN, threads),
        _LOAD: lambda: framework.load(file, devices=[_DEVICE]).close(),
        "a session's load": lambda: _session(file, nnhal_ort.get_ep_name(), threads),
    }


def _layers(megabytes: int) -> onnx.ModelProto:
    """Return four layers whose weights are so large together."""
    width = int((megabytes * (1 << 20) / 16) ** 0.5)
    names = ["x", "a", "b", "c", "y"]
    nodes = [helper.make_node("Gemm", [names[i], f"w{i}"], [names[i + 1]]) for i in range(4)]
    random = np.random.default_rng(0)
    weights = {f"w{i}": random.standard_normal((width, width)).astype(np.float32) for i in range(4)}
    return onnx_model(nodes, {"x": [1, width]}, {"y": [1, width]}, weights)


if __name__ == "__main__":
    run(ort)
