"""The runtime that a file is compared with, and nnhal, bound in place."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.zoo.packages import ModelFile
from nnhal.arrays import Array
from nnhal_client import Framework, Model
from nnhal_tools.runtimes import LiteRT, OnnxRuntime
from nnhal_tools.up import DeviceEntry

TWO_DEVICES = tuple(DeviceEntry(driver=name) for name in ("cpu_acc", "cpu_ref"))


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
