"""Digits by NeuralNetworks.h, by TensorFlow Lite and by ONNX Runtime: python -m tests.native.doors

The same network comes in by three doors, in three programs that know nothing of nnhal but a library's name. What
``explain`` says of it, and the ledger of a run by plan, is the same.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from nnhal.arrays import Array
from nnhal.endpoint import Endpoint
from nnhal.remote.admin import FrameworkAdmin
from nnhal.v1 import framework_admin_pb2 as wire
from nnhal_native import library_path
from nnhal_tools.up import DeviceEntry, Testbed, Topology
from tests.support.tflite_files import TfliteFile, floats
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tools/nnhal_tools/demo/data"
PROGRAMS = Path(__file__).parent / "programs"
DEVICES = ("mlip", "cpu_ref")
"""One that takes all but the last operation, and one that takes that."""
IMAGES = 20


@dataclass(frozen=True, slots=True)
class Seen:
    """Results of the digits by one door."""

    digits: tuple[int, ...]
    operations: tuple[tuple[str, str, int], ...]
    """The HAL's operation of each, its device and its step."""
    ledger: tuple[tuple[str, str, str, int, int], ...]
    """Source, destination, strategy, bytes, and what a run copies of them, of each edge."""

    def __str__(self) -> str:
        steps = ", ".join(f"{operation} on {device} ({step})" for operation, device, step in self.operations)
        uses = "; ".join(
            f"{a} to {b} by {how}, {size} bytes, {copied} copied" for a, b, how, size, copied in self.ledger
        )
        return f"  digits: {' '.join(map(str, self.digits))}\n  explain: {steps}\n  ledger: {uses}"


def through_the_doors(folder: Path, libraries: Path, provider: Path) -> Mapping[str, Seen]:
    """Run the three programs, which may use ``folder``, and return what was seen by door.

    The C program is built, and needs gcc; ``provider`` is that of ONNX Runtime.
    """
    commands = _commands(folder, libraries)
    devices = tuple(DeviceEntry(driver=name) for name in DEVICES)
    with Testbed(Topology(device=devices), folder / "testbed") as bed:
        environment = {
            **os.environ,
            "LD_LIBRARY_PATH": str(libraries),
            "NNHAL_FRAMEWORK": str(bed.framework),
            "PYTHONPATH": os.pathsep.join([str(provider.parents[1]), os.environ.get("PYTHONPATH", "")]),
        }
        with FrameworkAdmin(Endpoint(bed.framework, "framework"), bed.admin_key) as admin:
            return {door: _seen(admin, command, environment) for door, command in commands.items()}


def _seen(admin: FrameworkAdmin, command: list[str], environment: Mapping[str, str]) -> Seen:
    program = subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    with program:
        assert program.stdin is not None and program.stdout is not None
        digits = _answers(program)
        (model,) = admin.framework().session_models
        explained = admin.explain(wire.PlanTarget(model=model.name, session=model.session)).explanation
        program.stdin.close()
    wait_until(lambda: not admin.framework().session_models, "the program's session has ended")
    return Seen(
        digits,
        tuple((each.operation, each.device, each.step) for each in explained.operations),
        tuple((e.source, e.destination, e.strategy, e.bytes, e.copied_bytes) for e in explained.edges),
    )


def _answers(program: subprocess.Popen[str]) -> tuple[int, ...]:
    assert program.stdout is not None
    lines = iter(program.stdout.readline, "done\n")
    return tuple(int(line) for line in lines)


def _commands(folder: Path, libraries: Path) -> Mapping[str, list[str]]:
    """Write what the programs read, and return their command lines by door."""
    digits = DATA / "digits.onnx"
    weights = _channels_last({t.name: numpy_helper.to_array(t) for t in onnx.load(digits).graph.initializer})
    with np.load(DATA / "digits_heldout.npz") as arrays:
        arrays["images"][:IMAGES].astype(np.float32).tofile(images := folder / "images")
    (folder / "weights").write_bytes(b"".join(array.tobytes() for array in weights.values()))
    (folder / "digits.tflite").write_bytes(_tflite(weights))
    options = ["-Wall", "-Wextra", "-O1", f"-I{PROGRAMS.parents[2] / 'native'}", f"-L{libraries}", "-lneuralnetworks"]
    subprocess.run(["gcc", str(PROGRAMS / "digits.c"), "-o", str(folder / "digits"), *options], check=True)
    tflite = [str(folder / "digits.tflite"), str(images), str(libraries / "libnnhal_tflite.so")]
    return {
        "NeuralNetworks.h": [str(folder / "digits"), str(folder / "weights"), str(images)],
        "TensorFlow Lite": [sys.executable, str(PROGRAMS / "digits_tflite.py"), *tflite],
        "ONNX Runtime": [sys.executable, str(PROGRAMS / "digits_onnxruntime.py"), str(digits), str(images)],
    }


def _channels_last(weights: Mapping[str, Array]) -> dict[str, Array]:
    """The weights as NNAPI and TensorFlow Lite want them: of ONNX's network, whose channels are first."""
    found = {}
    for name, array in weights.items():
        if array.ndim == 4:
            array = array.transpose(0, 2, 3, 1)
        elif name == "dense.weight":
            array = array.reshape(10, 24, 4, 4).transpose(0, 2, 3, 1).reshape(10, 384)
        found[name] = np.ascontiguousarray(array, np.float32)
    return found


def _tflite(weights: Mapping[str, Array]) -> bytes:
    file = TfliteFile()
    value = file.input("image", floats(1, 8, 8, 1))

    def convolution(number: int, given: int, size: int) -> int:
        kernel, bias = (weights[f"conv{number}.{part}"] for part in ("weight", "bias"))
        strides = {"StrideW": 1, "StrideH": 1, "FusedActivationFunction": 1}
        inputs = [given, file.constant(kernel), file.constant(bias)]
        result = {f"conv{number}": floats(1, size, size, len(kernel))}
        return file.operator("CONV_2D", inputs, result, ("Conv2DOptions", strides))[0]

    value = convolution(2, convolution(1, value, 8), 8)
    pool = {"Padding": 1, "StrideW": 2, "StrideH": 2, "FilterWidth": 2, "FilterHeight": 2}
    (value,) = file.operator("MAX_POOL_2D", [value], {"pool": floats(1, 4, 4, 16)}, ("Pool2DOptions", pool))
    value = convolution(3, value, 4)
    shape = file.constant(np.array([1, 384], np.int32))
    (value,) = file.operator("RESHAPE", [value, shape], {"flat": floats(1, 384)})
    dense = [value, *(file.constant(weights[f"dense.{part}"]) for part in ("weight", "bias"))]
    (value,) = file.operator("FULLY_CONNECTED", dense, {"dense": floats(1, 10)}, ("FullyConnectedOptions", {}))
    return file.build(*file.operator("SOFTMAX", [value], {"digits": floats(1, 10)}, ("SoftmaxOptions", {"Beta": 1.0})))


def main() -> int:
    """Print what was seen by each door; return 0 if that is the same."""
    import nnhal_ort

    with tempfile.TemporaryDirectory(prefix="nnhal-") as folder:
        provider = Path(nnhal_ort.get_library_path())
        found = through_the_doors(Path(folder), library_path("ndk").parent, provider)
    for door, seen in found.items():
        print(f"{door}\n{seen}")
    return int(len(set(found.values())) != 1)


if __name__ == "__main__":
    sys.exit(main())
