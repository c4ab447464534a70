"""TFLite files with variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tflite

from tests.support.tflite_files import Spec, TfliteFile, floats

HANDLE = Spec((), np.int32, code=tflite.TensorType.RESOURCE)
Initial = Callable[[TfliteFile], int] | Any
"""An array, or what adds operators to a file and returns the tensor of their result."""


class FileWithVariables(TfliteFile):
    """A builder of files whose first subgraph gives variables their first values."""

    def initialise(self, values: Mapping[str, Initial]) -> None:
        """Begin the file with a subgraph that assigns these values, and have main call it once."""
        for name, given in values.items():
            handle = self.handle(name)
            self.assign(handle, given(self) if callable(given) else self.constant(given))
        number = self.subgraph()
        self.operator("CALL_ONCE", [], {}, ("CallOnceOptions", {"InitSubgraphIndex": number}))

    def handle(self, name: str) -> int:
        """Add a handle of a variable."""
        options = {"Container": "", "SharedName": name}
        return self.operator("VAR_HANDLE", [], {f"handle_{len(self._tensors)}": HANDLE}, ("VarHandleOptions", options))[
            0
        ]

    def read(self, handle: int, spec: Spec) -> int:
        """Read a variable."""
        return self.operator("READ_VARIABLE", [handle], {f"read_{len(self._tensors)}": spec})[0]

    def assign(self, handle: int, value: int) -> None:
        """Assign a variable."""
        self.operator("ASSIGN_VARIABLE", [handle, value], {})


def running_sum(size: int = 3, initial: Any = (10.0, 20.0, 30.0)) -> bytes:
    """A model whose output ``y`` is the sum of all inputs ``x`` so far."""
    file = FileWithVariables()
    file.initialise({"sum": np.resize(np.array(initial, np.float32), size)})
    x, handle = file.input("x", floats(size)), file.handle("sum")
    (y,) = file.operator("ADD", [file.read(handle, floats(size)), x], {"y": floats(size)}, ("AddOptions", {}))
    file.assign(handle, y)
    return file.build(y)
