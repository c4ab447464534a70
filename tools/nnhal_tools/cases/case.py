"""A case: a model, inputs and what has to come of them; and the outcome of a case on a device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from nnhal.arrays import Array, Bytes
from nnhal.codec.lengths import Lengths
from nnhal.operations import type_name
from nnhal.types import ErrorStatus, Model, OperationType
from nnhal.types.layout import is_extension


class ExecutionMode(StrEnum):
    """Way to execute a case."""

    SYNC = "sync"
    BURST = "burst"
    REUSABLE = "reusable"
    FENCED = "fenced"


class MemoryChoice(StrEnum):
    """Kind of the pools of a case; ``token`` is memory that the device owns."""

    ASHMEM = "ashmem"
    MMAP_FD = "mmap_fd"
    HARDWARE_BUFFER_BLOB = "hardware_buffer_blob"
    TOKEN = "token"


Way = tuple[ExecutionMode, MemoryChoice]
"""A way of executing a case."""
SYNC_OVER_ASHMEM: Way = (ExecutionMode.SYNC, MemoryChoice.ASHMEM)


class Verdict(StrEnum):
    """Verdict of a case. Declined: the device does not support an operation of the model."""

    PASSED = "passed"
    FAILED = "failed"
    DECLINED = "declined"


VALUES, DIMENSIONS, SIZE, ACCEPTED, LAUNCHED = "values", "dimensions", "size", "accepted", "launched"
UNREACHABLE, ENDED, UNWRITTEN = "unreachable", "ended", "unwritten"
"""How a case fails, unless it is the device's status: wrong values, wrong dimensions, an output that did not fit its
memory, a model that was to be refused, a fenced launch that was, a call without an answer, the end of the device, an
output that the device has not written.
"""


@dataclass(frozen=True, slots=True)
class Expectation:
    """An output: its array, or its dimensions if its value is not compared."""

    values: Array
    compared: bool
    absolute: float
    relative: float


@dataclass(frozen=True, slots=True)
class Case:
    """A model, inputs and what has to come of them."""

    name: str
    """Name of the case."""
    group: str
    """Where it comes from: a specification, or a model of a recording."""
    model: Model
    """The model. Cases of one model object share a prepared model."""
    inputs: tuple[Array | None, ...]
    """Values of the inputs; None for an input without data, which is omitted."""
    outputs: tuple[Expectation, ...]
    """Expected outputs."""
    expect_failure: bool = False
    """Whether the device must refuse it, with any status."""
    multinomial_tolerance: float = 0.0
    """Allowed deviation of frequencies from probabilities; 0 if outputs are no samples."""
    status: ErrorStatus = ErrorStatus.NONE
    """The status that it must end with."""
    way: Way | None = None
    """How it is executed, if not in the ways of the run."""
    is_prepared_only: bool = False
    """Whether there is nothing to execute."""
    preparing: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of ``prepare_model`` besides the model."""
    seconds: float | None = None
    """How long the execution may take, if not as long as others of the run."""
    lengths: Lengths = ()
    """Dimensions that some inputs have in this execution, if a request cannot say so: their arrays are the largest."""
    taken: Callable[[Sequence[Bytes]], object] | None = None
    """Gets the outputs of an execution that has succeeded."""

    @property
    def operations(self) -> tuple[str, ...]:
        """Names of the operations of the main subgraph."""
        return tuple(_name(operation.type) for operation in self.model.main.operations)

    @property
    def subject(self) -> tuple[str, str]:
        """The operation and the type that it tests. An ADD beside other operations only carries values."""
        main = self.model.main
        if not main.operations:
            return "", ""
        chosen = next((o for o in main.operations if o.type != OperationType.ADD), main.operations[0])
        types = [type_name(main.operands[index].type) for index in chosen.inputs]
        tensors = [each for each in types if each.startswith("TENSOR")]
        return _name(chosen.type), (tensors or types or [""])[0]

    def outcome(self, way: Way, verdict: Verdict, reason: str = "", failure: str = "") -> CaseOutcome:
        """Return how it ended in one way."""
        return CaseOutcome(self.name, self.group, *self.subject, *way, verdict, reason, failure)


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """Outcome of one case in one mode over one kind of memory."""

    name: str
    """Name of the case."""
    group: str
    """Where it comes from."""
    operation: str
    """The operation that it is about."""
    type: str
    """The operand type that it is about."""
    mode: ExecutionMode
    """How it was executed."""
    memory: MemoryChoice
    """The kind of its pools."""
    verdict: Verdict
    """How it ended."""
    reason: str = ""
    """Why it did not pass."""
    failure: str = ""
    """How it failed, in one word: one of those above, or the name of the device's error status."""
    origin: str = ""
    """From which operation on values are wrong, if that was looked for."""


def _name(code: int) -> str:
    return "RUN" if is_extension(code) else OperationType(code).name
