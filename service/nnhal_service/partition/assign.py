"""Which device takes each operation: NNAPI's rule.

The best device of an operation is the one with the least cost among those that support it; on a tie the earlier one.
The cost is the capability figure for the type of the operation's first input. A pin overrides it.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nnhal.errors import NnhalError
from nnhal.resolved import describe_operation
from nnhal.types import Capabilities, Model, OperandType, Operation, OperationType


class PlacementError(NnhalError):
    """No device takes an operation, or a pin cannot be kept. The message says what each device said."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A device that may take operations. ``refusals`` says why not, by operation index."""

    name: str
    capabilities: Capabilities
    refusals: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class Pin:
    """Nodes that must run on a device: ``name:GLOB`` of the user's node names, or ``op:TYPE`` of the HAL's."""

    match: str
    device: str

    def covers(self, operation: Operation, names: Sequence[str]) -> bool:
        """Whether an operation, which stands for the named nodes, is pinned. Raises PlacementError for a bad match."""
        kind, _, pattern = self.match.partition(":")
        if kind == "name" and pattern:
            return any(fnmatch.fnmatchcase(name, pattern) for name in names)
        if kind == "op" and pattern:
            return operation.type <= max(OperationType) and OperationType(operation.type).name == pattern.upper()
        raise PlacementError(f"pin {self.match!r}: expected name:GLOB or op:TYPE")


def assign(
    model: Model, names: Sequence[Sequence[str]], candidates: Sequence[Candidate], pins: Sequence[Pin] = ()
) -> tuple[str, ...]:
    """The device of each operation. ``names`` are the user's node names of each. Raises PlacementError."""
    known = {candidate.name for candidate in candidates}
    for pin in pins:
        if pin.device not in known:
            raise PlacementError(f"pin {pin.match!r}: no device {pin.device!r}; there are {', '.join(sorted(known))}")
    chosen = tuple(_best(model, index, names[index], candidates, pins) for index in range(len(model.main.operations)))
    for pin in pins:
        if not any(pin.covers(o, n) for o, n in zip(model.main.operations, names, strict=True)):
            raise PlacementError(f"pin {pin.match!r} matches no node of the model")
    return chosen


def _best(model: Model, index: int, names: Sequence[str], candidates: Sequence[Candidate], pins: Sequence[Pin]) -> str:
    operation = model.main.operations[index]
    pinned = [pin.device for pin in pins if pin.covers(operation, names)]
    allowed = [c for c in candidates if not pinned or c.name == pinned[-1]]
    able = [candidate for candidate in allowed if index not in candidate.refusals]
    if not able:
        said = "; ".join(f"{c.name}: {c.refusals[index]}" for c in allowed)
        what = f"{describe_operation(operation, index)}, node {' + '.join(names)}"
        raise PlacementError(f"no device takes {what}: {said or 'there are no devices'}")
    return min(able, key=lambda candidate: _cost(model, operation, candidate.capabilities)).name


def _cost(model: Model, operation: Operation, capabilities: Capabilities) -> float:
    code = model.main.operands[operation.inputs[0]].type if operation.inputs else OperandType.FLOAT32
    if model.relax_computation_float32_to_float16:
        if code == OperandType.FLOAT32:
            return capabilities.relaxed_float32_to_float16_scalar.exec_time
        if code == OperandType.TENSOR_FLOAT32:
            return capabilities.relaxed_float32_to_float16_tensor.exec_time
    return capabilities.performance_of(code).exec_time
