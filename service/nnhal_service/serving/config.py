"""Configuration of a model that is served: its batches, instances, queue and priorities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from nnhal.arrays import Array
from nnhal.types import Priority
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.requests.reshape import Reshape

_WITHOUT_LEVELS = {1: Priority.HIGH, 2: Priority.MEDIUM, 3: Priority.LOW}


class TimeoutAction(Enum):
    """Action for a request that has waited longer than its timeout."""

    REJECT = "reject"
    DELAY = "delay"


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """The queue of one priority."""

    timeout_action: TimeoutAction = TimeoutAction.REJECT
    default_timeout_ns: int = 0
    """The time that a request may wait; 0 for ever."""
    allow_timeout_override: bool = False
    """True if a request may set a timeout of its own, up to the default one."""
    max_queue_size: int = 0
    """How many requests may wait; 0 for any number."""


@dataclass(frozen=True, slots=True)
class Batching:
    """Requests are joined into one batch: as soon as it has a preferred size, else after the delay."""

    preferred_batch_sizes: tuple[int, ...] = ()
    max_queue_delay_ns: int = 0
    preserve_ordering: bool = False


class ControlKind(Enum):
    """Meaning of a control input to the model."""

    START = "start"
    """True if the request is the first of its sequence."""
    END = "end"
    """True if it is the last."""
    READY = "ready"
    """True if there is a request: always, since each runs alone."""
    CORRID = "correlation id"
    """The sequence's identifier."""


@dataclass(frozen=True, slots=True)
class SequenceControl:
    """An input that the server fills in."""

    input: str
    kind: ControlKind
    element_type: np.dtype[np.generic]
    values: tuple[float, float] = (0, 1)
    """What stands for false and true."""

    def array(self, value: int | str, shape: tuple[int, ...], model: str) -> Array:
        """The input. Raises INVALID_ARGUMENT if an identifier is of another type than the input."""
        if self.kind is not ControlKind.CORRID:
            return np.full(shape, self.values[bool(value)], self.element_type)
        if isinstance(value, str) != self.element_type.hasobject:
            expected = "a string" if self.element_type.hasobject else "an integer"
            message = f"parameter 'sequence_id' is {value!r}, model '{model}' expects {expected}"
            raise ServingError(ErrorKind.INVALID_ARGUMENT, message)
        if isinstance(value, str):
            found = np.empty(shape, object)
            found.fill(value.encode())
            return found
        if value > np.iinfo(self.element_type.name).max:
            message = f"parameter 'sequence_id' is {value}, which is too large for input '{self.input}' of '{model}'"
            raise ServingError(ErrorKind.INVALID_ARGUMENT, message)
        return np.full(shape, value, self.element_type)


@dataclass(frozen=True, slots=True)
class Sequencing:
    """Requests belong to sequences, those of one sequence run in their order."""

    idle_ns: int
    """The time that after its last request a sequence ends."""
    most: int
    """How many sequences there may be, with those that wait."""
    controls: tuple[SequenceControl, ...] = ()
    candidates: int = 0
    """How many have their turn at a time, while the others wait; 0 for all."""

    @property
    def hidden(self) -> tuple[str, ...]:
        """The inputs that clients do not give."""
        return tuple(control.input for control in self.controls)

    @property
    def least_id(self) -> int | str:
        kinds = [c.element_type for c in self.controls if c.kind is ControlKind.CORRID]
        return "1" if any(kind.hasobject for kind in kinds) else 1


@dataclass(frozen=True, slots=True)
class ServingConfig:
    """Configuration of one model that is served."""

    max_batch_size: int = 0
    """If above 0, the first axis of every tensor is the batch."""
    instances: int = 1
    """How many batches run at a time."""
    batching: Batching | None = None
    """None if each request runs alone."""
    queue: QueuePolicy = QueuePolicy()
    """The queue of each priority that ``priority_queues`` does not name."""
    priority_levels: int = 0
    """Priorities are 1, the highest, to this number; 0 for a single level."""
    default_priority: int = 0
    """The priority of a request that has none."""
    priority_queues: Mapping[int, QueuePolicy] = field(default_factory=dict)
    """Queues by priority."""
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The names of classes, by output."""
    sequences: Sequencing | None = None
    """None if requests belong to no sequences."""
    input_shapes: Mapping[str, Reshape] = field(default_factory=dict)
    """The inputs that clients give in another shape than the model takes, or in one of those, with the batch axis."""
    output_shapes: Mapping[str, Reshape] = field(default_factory=dict)
    """The outputs that clients get in another shape."""
    unlisted_outputs: tuple[str, ...] = ()
    """The outputs that only requests that name them get."""
    goal_ns: int = 0
    """99 % of the requests are to be answered within this time; 0 without a goal."""

    @property
    def default_level(self) -> int:
        """The level of requests that name no level, or an unknown one; 0 without levels."""
        if 1 <= self.default_priority <= self.priority_levels:
            return self.default_priority
        return self.priority_levels // 2 + 1 if self.priority_levels else 0


class Priorities:
    """The HAL's priority of one model's requests, whose own priority 1 is the highest, as in Triton.

    Requests of the default level run with the model's own priority, those above it with HIGH, those below it with LOW.
    Without levels 1, 2 and 3 are HIGH, MEDIUM and LOW, and any other number is the model's own priority.
    """

    def __init__(self, config: ServingConfig, own: Priority) -> None:
        """``own`` is the priority that the model was prepared with."""
        self._levels = config.priority_levels
        self._default = config.default_level
        self._own = own

    def of(self, requested: Iterable[int]) -> Priority | None:
        """The most urgent priority of a batch; None if that is the model's own."""
        urgent = max(map(self._priority, requested))
        return None if urgent == self._own else urgent

    def _priority(self, requested: int) -> Priority:
        if not self._levels:
            return _WITHOUT_LEVELS.get(requested, self._own)
        if requested == self._default or not 1 <= requested <= self._levels:
            return self._own
        return Priority.HIGH if requested < self._default else Priority.LOW
