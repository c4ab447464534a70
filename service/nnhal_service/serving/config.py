"""How a model is served: its batches, instances and queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class TimeoutAction(Enum):
    """What becomes of a request that has waited too long."""

    REJECT = "reject"
    DELAY = "delay"


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """One priority's queue. ``max_queue_size`` 0 is unlimited, ``default_timeout_ns`` 0 is none.

    A request may set its own timeout, up to the default one, where ``allow_timeout_override`` says so.
    """

    timeout_action: TimeoutAction = TimeoutAction.REJECT
    default_timeout_ns: int = 0
    allow_timeout_override: bool = False
    max_queue_size: int = 0


@dataclass(frozen=True, slots=True)
class Batching:
    """Requests are put together into one execution: up to a preferred size at once, else after the delay."""

    preferred_batch_sizes: tuple[int, ...] = ()
    max_queue_delay_ns: int = 0
    preserve_ordering: bool = False


@dataclass(frozen=True, slots=True)
class ServingConfig:
    """Tensors of a model with ``max_batch_size`` above 0 have the batch as their first axis.

    ``instances`` executions run at a time. Priorities are 1, the highest, to ``priority_levels``; 0 levels is one.
    """

    max_batch_size: int = 0
    instances: int = 1
    batching: Batching | None = None
    queue: QueuePolicy = QueuePolicy()
    priority_levels: int = 0
    default_priority: int = 0
    priority_queues: Mapping[int, QueuePolicy] = field(default_factory=dict)
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The names of classes, by output."""

    @property
    def default_level(self) -> int:
        """The level of requests that ask for none, or for one that there is not; 0 without levels."""
        if 1 <= self.default_priority <= self.priority_levels:
            return self.default_priority
        return self.priority_levels // 2 + 1 if self.priority_levels else 0
