"""Findings of a replay: values that differ, calls that end otherwise, and its report."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from nnhal.arrays import Bytes
from nnhal.types import Model, Operand, OperandType, OperationType
from nnhal.types.layout import ELEMENT_TYPES
from nnhal.v1 import recording_pb2 as wire
from nnhal_tools.conformance.compare import mismatch
from nnhal_tools.conformance.vectors import Expectation
from nnhal_tools.distance import is_half, tolerance_of
from nnhal_tools.element_types import number_type_of

_BYTES = np.dtype(np.uint8)
_FLOATS, _NUMBERS = "f", "fiu"
_HALF_BYTES = 2


@dataclass(frozen=True, slots=True)
class Difference:
    """A call that has not ended as in the recording."""

    call: str
    """Which: its method, its session, and when it was made."""
    what: str
    """What was got, and what the recording has."""
    model: int = 0
    """The prepared model that it was about, by its number in the recording; 0 for none."""


_TOLD = ("calls", "compared_outputs", "differences", "declined", "left_out", "origins", "notes")


@dataclass
class ReplayReport:
    """Findings of a replay. Safe to fill from several threads."""

    recording: str
    device: str
    notes: list[str] = field(default_factory=list)
    """What the recording lacks."""
    calls: int = 0
    """Calls that were made again."""
    compared_outputs: int = 0
    """Outputs, and values of buffers, that were compared with the recording's."""
    differences: list[Difference] = field(default_factory=list)
    declined: dict[int, str] = field(default_factory=dict)
    """Why the device declines prepared models, by their numbers."""
    left_out: Counter[str] = field(default_factory=Counter)
    """How many calls were not made, or not compared, by the reason."""
    origins: dict[int, str] = field(default_factory=dict)
    """From which operation on a model's values differ, or that no operation is wrong, by the number of the model."""
    models: dict[int, Model] = field(default_factory=dict)
    """The models that were prepared, by their numbers."""
    runs: dict[int, tuple[int, wire.RecordedExecution]] = field(default_factory=dict)
    """The first execution of each model whose values differ, or else the last, with its number among them."""
    differing: set[int] = field(default_factory=set)
    """The models of which an execution has other values."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def as_dict(self) -> dict[str, Any]:
        """Return the report for JSON."""
        told = {name: getattr(self, name) for name in _TOLD}
        differences = [asdict(difference) for difference in self.differences]
        return {"recording": self.recording, "device": self.device, **told, "differences": differences}

    def made(self) -> None:
        """Count a call."""
        with self._lock:
            self.calls += 1

    def compared(self) -> None:
        """Count a value that was compared."""
        with self._lock:
            self.compared_outputs += 1

    def differ(self, call: str, what: str, model: int = 0, in_values: bool = False) -> None:
        """Note a difference; ``in_values`` if it is one of the execution that was kept last."""
        with self._lock:
            self.differences.append(Difference(call, what, model))
            if in_values:
                self.differing.add(model)

    def ran(self, model: int, execution: wire.RecordedExecution) -> None:
        """Keep an execution, unless one of the model has differed."""
        with self._lock:
            if model not in self.differing:
                before, _ = self.runs.get(model, (0, None))
                self.runs[model] = before + 1, execution

    def leave_out(self, reason: str) -> None:
        """Count a call that was not made, or not compared, for a reason."""
        with self._lock:
            self.left_out[reason] += 1


def is_random(model: Model) -> bool:
    """True if outputs are drawn: other runs may have other values."""
    return any(
        operation.type == OperationType.RANDOM_MULTINOMIAL
        for graph in (model.main, *model.referenced)
        for operation in graph.operations
    )


def difference_of(model: Model, operand: Operand, recorded: bytes, got: Bytes) -> str:
    """Return what is wrong with the value of an operand; empty if nothing is."""
    element, absolute, relative = _rule(model, operand.type)
    wanted = np.frombuffer(recorded[: len(recorded) - len(recorded) % element.itemsize], element)
    found = got[: len(got) - len(got) % element.itemsize].view(element)
    if len(found) != len(wanted):
        return f"{len(got)} bytes, recorded {len(recorded)}"
    return mismatch(Expectation(wanted, True, absolute, relative), found, wanted.shape)


def _rule(model: Model, code: int) -> tuple[np.dtype[np.generic], float, float]:
    """The elements of a type, and how far they may be apart. Of extensions, floats may as those of the HAL may."""
    half = is_half(model)
    if code in ELEMENT_TYPES:
        return ELEMENT_TYPES[code], *tolerance_of(code, half)
    element = number_type_of(model, code)
    if element is None or element.kind not in _NUMBERS:
        return _BYTES, 0.0, 0.0
    if element.kind != _FLOATS:
        return element, 0.0, 0.0
    like = OperandType.TENSOR_FLOAT16 if element.itemsize == _HALF_BYTES else OperandType.TENSOR_FLOAT32
    return element, *tolerance_of(like, half)
