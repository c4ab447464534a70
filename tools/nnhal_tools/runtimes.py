"""The runtimes that nnhal is compared with: in this process, with one thread, and without anything of nnhal's."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import onnxruntime

from nnhal.arrays import Array
from nnhal.given_files import open_given_file
from nnhal_frontends.tflite_identifier import is_tflite
from nnhal_hosting.extras import install_command

RUNTIMES = ("ort", "litert")
"""The names of the runtimes: ONNX Runtime for ONNX files, LiteRT for TFLite files."""
_ELEMENTS = {"float16": np.float16, "float": np.float32, "double": np.float64, "bool": np.bool_}
_KERNEL = "_kernel_time"
_FLOAT_TOLERANCE, _INTEGER_TOLERANCE = 1e-3, 1


class UnusableModelError(ValueError):
    """A model that a runtime refuses or that takes what is no array. The message says why, in one line."""


class PeerRuntime(Protocol):
    """A model that a runtime has loaded."""

    @property
    def inputs(self) -> Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        """Dimensions of the inputs, 0 if open, and their element types."""
        ...

    def place(self, inputs: Mapping[str, Array]) -> None:
        """Put the inputs where runs read them."""
        ...

    def run(self) -> None:
        """Run once."""
        ...

    def outputs(self) -> list[Array]:
        """Copies of the outputs of the last run."""
        ...


class NodeTime(NamedTuple):
    """The time of one node of a graph in one run, as the runtime has measured it itself."""

    name: str
    """As the runtime calls it: it may stand for several nodes of the file."""
    type: str
    duration_ns: float


EXACT_SUMS = ("session.x64quantprecision", "1")
"""The option without which sums of bytes saturate in ONNX Runtime on x86 processors without VNNI."""


class OnnxRuntime:
    """ONNX Runtime with its own optimisations."""

    def __init__(self, path: Path, profile: str = "") -> None:
        """With ``profile``, each run is profiled, for a file whose name begins so. Raises UnusableModelError."""
        options = onnxruntime.SessionOptions()
        if profile:
            options.enable_profiling, options.profile_file_prefix = True, profile
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        options.add_session_config_entry(*EXACT_SUMS)
        try:
            self._session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its exceptions have no other common class
            raise UnusableModelError(in_line(error)) from error
        self.inputs = {node.name: (_dimensions(node.shape), _element(node.type)) for node in self._session.get_inputs()}
        self._placed: dict[str, Array] = {}
        self._results: list[Array] = []

    def place(self, inputs: Mapping[str, Array]) -> None:
        self._placed = dict(inputs)

    def end_profile(self) -> list[NodeTime]:
        """End the profile of a session that has one, and return the times of its nodes, the longest first."""
        events = json.loads(Path(self._session.end_profiling()).read_text())
        runs = sum(event["name"] == "model_run" for event in events) or 1
        found: dict[tuple[str, str], float] = {}
        for event in events:
            if event["cat"] == "Node" and event["name"].endswith(_KERNEL):
                key = event["name"].removesuffix(_KERNEL), event["args"]["op_name"]
                found[key] = found.get(key, 0.0) + event["dur"] * 1e3 / runs
        return sorted((NodeTime(*key, ns) for key, ns in found.items()), key=lambda node: -node.duration_ns)

    def run(self) -> None:
        self._results = [np.asarray(result) for result in self._session.run(None, self._placed)]

    def outputs(self) -> list[Array]:
        return self._results


class LiteRT:
    """LiteRT with its default delegate, XNNPACK."""

    def __init__(self, path: Path) -> None:
        """Raises UnusableModelError."""
        try:
            from ai_edge_litert.interpreter import Interpreter
        except ImportError as error:
            raise UnusableModelError(f"LiteRT is not installed: {install_command('litert')}") from error
        try:
            self._interpreter: Any = Interpreter(str(path), num_threads=1)
            self._interpreter.allocate_tensors()
        except (ValueError, RuntimeError) as error:
            raise UnusableModelError(in_line(error)) from error
        details = self._interpreter.get_input_details()
        self._indices = {detail["name"]: detail["index"] for detail in details}
        self.inputs = {
            detail["name"]: (tuple(max(0, size) for size in detail["shape_signature"]), np.dtype(detail["dtype"]))
            for detail in details
        }

    def place(self, inputs: Mapping[str, Array]) -> None:
        for name, values in inputs.items():
            self._interpreter.resize_tensor_input(self._indices[name], values.shape)
        self._interpreter.allocate_tensors()
        for name, values in inputs.items():
            self._interpreter.set_tensor(self._indices[name], values)

    def run(self) -> None:
        self._interpreter.invoke()

    def outputs(self) -> list[Array]:
        return [np.array(self._interpreter.get_tensor(d["index"])) for d in self._interpreter.get_output_details()]


def _dimensions(shape: list[object]) -> tuple[int, ...]:
    return tuple(size if isinstance(size, int) and size > 0 else 0 for size in shape)


def _element(name: str) -> np.dtype[Any]:
    inner = name.removeprefix("tensor(").removesuffix(")")
    if inner == name or inner == "string":
        raise UnusableModelError(f"an input is a {name}, not an array of numbers")
    return np.dtype(_ELEMENTS.get(inner, inner))


def in_line(error: BaseException) -> str:
    """The message of an error, in a line."""
    return " ".join(str(error).split())[:200]


def opened_runtime(name: str, path: Path) -> OnnxRuntime | LiteRT:
    """Load a file in the runtime of a name.

    Raises ValueError if there is no such runtime, if it is not installed, or if it does not read files of this kind.
    """
    if name not in RUNTIMES:
        raise ValueError(f"runtime {name!r}: expected {' or '.join(RUNTIMES)}")
    wanted = runtime_of(path)
    if name != wanted:
        kinds = {"ort": "ONNX", "litert": "TFLite"}
        raise ValueError(f"{name} runs {kinds[name]} files, and {path} is none: use {wanted}")
    try:
        return OnnxRuntime(path) if name == "ort" else LiteRT(path)
    except UnusableModelError as error:
        raise ValueError(f"{name}: {error}") from error


def runtime_of(path: Path) -> str:
    """The name of the runtime that a file is for."""
    with open_given_file(path, "a model") as file:
        return "litert" if is_tflite(file.read(8)) else "ort"


def place_alike(runtime: OnnxRuntime | LiteRT, inputs: Mapping[str, Array]) -> None:
    """Give a runtime the inputs of a model: by name, or by order if it has other names for them."""
    declared = runtime.inputs
    named = inputs if inputs.keys() == declared.keys() else dict(zip(declared, inputs.values(), strict=True))
    runtime.place({name: values.astype(declared[name][1], copy=False) for name, values in named.items()})


def profile_of(path: Path, inputs: Mapping[str, Array], runs: int) -> list[NodeTime]:
    """Run an ONNX file in a session of ONNX Runtime of its own that is profiled, and return the times of its nodes."""
    with tempfile.TemporaryDirectory(prefix="nnhal-profile-") as directory:
        session = OnnxRuntime(path, str(Path(directory) / "profile"))
        place_alike(session, inputs)
        for _ in range(runs):
            session.run()
        return session.end_profile()


class RuntimeDifference(NamedTuple):
    """Distance of an output from that of a runtime."""

    name: str
    largest: float
    """The largest difference of two elements; infinity if the shapes differ, or one of both is NaN."""
    limit: float
    """What is allowed: 1 for integers, a thousandth of the runtime's largest magnitude for floats."""

    @property
    def is_beyond(self) -> bool:
        """True if it is more than what is allowed."""
        return not self.largest <= self.limit


def differences(outputs: Mapping[str, Any], expected: Sequence[Array]) -> list[RuntimeDifference]:
    """Compare outputs with those of a runtime, in the same order."""
    return [_difference(name, np.asarray(o), e) for (name, o), e in zip(outputs.items(), expected, strict=True)]


def _difference(name: str, own: Array, expected: Array) -> RuntimeDifference:
    if own.size != expected.size or expected.dtype.kind not in "biuf" or own.dtype.kind not in "biuf":
        return RuntimeDifference(name, 0.0 if np.array_equal(own, expected) else np.inf, 0.0)
    one, other = own.astype(np.float64).reshape(-1), expected.astype(np.float64).reshape(-1)
    with np.errstate(invalid="ignore"):
        apart = np.where((one == other) | (np.isnan(one) & np.isnan(other)), 0.0, np.abs(one - other))
    largest = float(np.nan_to_num(apart, nan=np.inf, posinf=np.inf).max(initial=0.0))
    if expected.dtype.kind != "f":
        return RuntimeDifference(name, largest, _INTEGER_TOLERANCE)
    magnitude = float(np.abs(other[np.isfinite(other)]).max(initial=0.0))
    return RuntimeDifference(name, largest, _FLOAT_TOLERANCE * magnitude)
