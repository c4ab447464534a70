"""Services behind the routes."""

from __future__ import annotations

from dataclasses import dataclass, field

from nnhal_hosting.access import AllowedHosts
from nnhal_service.access import Guard, RequestMemoryBudget
from nnhal_service.serving.loop import ServingLoop
from nnhal_service.v2.backend import LogSettings, ModelRepository, ServerDescription, SharedMemory, TraceSettings


@dataclass(frozen=True, slots=True)
class Services:
    """Services for the routes of the HTTP server."""

    server: ServerDescription
    repository: ModelRepository
    trace: TraceSettings
    log: LogSettings
    guard: Guard
    loop: ServingLoop
    """The loop that serves."""
    max_bytes: int
    """The longest body of a request."""
    memory: SharedMemory | None = None
    """The shared memory of clients; None if they may register none."""
    budget: RequestMemoryBudget = field(default_factory=RequestMemoryBudget)
    """The memory that the bodies of all requests share."""
    hosts: AllowedHosts = field(default_factory=AllowedHosts)
    """The names under which the server may be addressed."""
