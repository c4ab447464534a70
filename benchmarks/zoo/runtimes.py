"""The runtimes that nnhal is compared with, in this process and with one thread, and nnhal, bound in place."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnxruntime
from ai_edge_litert.interpreter import Interpreter

from benchmarks.zoo.packages import ModelFile
from nnhal.arrays import Array
from nnhal_client import Framework, Model

_ELEMENTS = {"float16": np.float16, "float": np.float32, "double": np.float64, "bool": np.bool_}


class UnusableModelError(Exception):
    """A model that a runtime refuses or that takes what is no array. The message says why, in one line."""


class Runtime(Protocol):
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


class OnnxRuntime:
    """ONNX Runtime with its own optimisations."""

    def __init__(self, path: Path) -> None:
        """Raises UnusableModelError."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        try:
            self._session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its exceptions have no other common class
            raise UnusableModelError(in_line(error)) from error
        self.inputs = {node.name: (_dimensions(node.shape), _element(node.type)) for node in self._session.get_inputs()}
        self._placed: dict[str, Array] = {}
        self._results: list[Array] = []

    def place(self, inputs: Mapping[str, Array]) -> None:
        self._placed = dict(inputs)

    def run(self) -> None:
        self._results = [np.asarray(result) for result in self._session.run(None, self._placed)]

    def outputs(self) -> list[Array]:
        return self._results


class LiteRT:
    """LiteRT with its default delegate, XNNPACK."""

    def __init__(self, path: Path) -> None:
        """Raises UnusableModelError."""
        try:
            self._interpreter = Interpreter(str(path), num_threads=1)
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


class Nnhal:
    """A model of a framework, with its inputs and outputs in shared memory."""

    def __init__(self, framework: Framework, path: Path) -> None:
        """Raises HalError."""
        self.model: Model = framework.load(path)
        self.inputs: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {}

    def bind(self, inputs: Mapping[str, Array], outputs: list[Array]) -> None:
        """Bind with the dimensions of inputs and outputs of a run elsewhere."""
        dimensions = {name: values.shape for name, values in inputs.items()}
        dimensions |= {tensor.name: values.shape for tensor, values in zip(self.model.outputs, outputs, strict=False)}
        self._binding = self.model.bind(dimensions=dimensions)

    def place(self, inputs: Mapping[str, Array]) -> None:
        for name, values in inputs.items():
            self._binding.inputs[name][...] = values.reshape(self._binding.inputs[name].shape)

    def run(self) -> None:
        self._binding.run()

    def outputs(self) -> list[Array]:
        return [np.array(self._binding.outputs[tensor.name]) for tensor in self.model.outputs]

    def close(self) -> None:
        """Release the model."""
        with suppress(Exception):
            self.model.unload()


def in_process(file: ModelFile) -> OnnxRuntime | LiteRT:
    """Load a file with the runtime of its format. Raises UnusableModelError."""
    return OnnxRuntime(file.path) if file.is_onnx else LiteRT(file.path)


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
