"""What the routes speak to."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, field

from nnhal_service.access import Guard, RequestMemoryBudget
from nnhal_service.v2.backend import LogSettings, ModelRepository, ServerDescription, SharedMemory, TraceSettings


@dataclass(frozen=True, slots=True)
class Services:
    """All that is behind the front. Without ``memory`` clients may register none.

    ``workers`` run inferences, as many at a time as it has threads; ``max_bytes`` is what a body may have,
    and ``budget`` what all of them have to share.
    """

    server: ServerDescription
    repository: ModelRepository
    trace: TraceSettings
    log: LogSettings
    guard: Guard
    workers: Executor
    max_bytes: int
    memory: SharedMemory | None = None
    budget: RequestMemoryBudget = field(default_factory=RequestMemoryBudget)
