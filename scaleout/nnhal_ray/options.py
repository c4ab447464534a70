"""The arguments of the application."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

_EXPOSED = (
    "Ray Serve does not see who asks, and but for 'nnhal ray up' it listens at all interfaces: give 'tokens', the path "
    "of a file of bearer tokens on every host, or 'insecure=true' to serve whoever reaches the ports"
)


def _several(given: object) -> object:
    """A single path as a list of one, since a command line has no lists."""
    return (given,) if isinstance(given, str | Path) else given


class ScaleOutOptions(BaseModel):
    """Models of each host, and number of hosts. All paths are absolute, and the same on every host."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    model_repository: Annotated[tuple[Path, ...], BeforeValidator(_several), Field(min_length=1)]
    """Folders of models."""

    topology: Path | None = None
    """A topology file of ``nnhal up``; cpu_acc and cpu_ref without one."""

    tokens: Path | None = None
    """A file of bearer tokens, as for ``nnhal serve``."""

    insecure: bool = False
    """Serve without tokens."""

    accelerators: Mapping[str, Annotated[float, Field(gt=0)]] = {}
    """The resources of Ray that a host must have and gives to nnhal, such as ``{"npu": 1}``."""

    cpus: float = Field(default=1.0, ge=0)
    """The processors that Ray counts for a host. Nothing holds nnhal's processes to them."""

    min_hosts: int = Field(default=1, ge=1)
    max_hosts: int = Field(default=1, ge=1)
    """Hosts are added and removed between the two, by how many requests are under way."""

    target_requests: int = Field(default=16, ge=1)
    """The requests under way at each host that autoscaling aims at."""

    max_requests: int = Field(default=256, ge=1)
    """The most requests under way at one host; more are refused with RESOURCE_EXHAUSTED."""

    max_body: int = Field(default=64 << 20, gt=0)
    """The longest body of a request over HTTP, in bytes."""

    dashboard: bool = True
    """Give every host the dashboard of ``nnhal up``, at port 8003 of the host unless the topology says otherwise."""

    drain_seconds: float = Field(default=30.0, ge=0)
    """The time that a host that is to end has for its requests."""

    @model_validator(mode="after")
    def _possible(self) -> ScaleOutOptions:
        paths = [*self.model_repository, *(path for path in (self.topology, self.tokens) if path is not None)]
        relative = [str(path) for path in paths if not path.is_absolute()]
        if relative:
            raise ValueError(f"paths {relative}: expected absolute ones, since they are read on every host")
        if self.max_hosts < self.min_hosts:
            raise ValueError(f"max_hosts is {self.max_hosts}, expected at least min_hosts, {self.min_hosts}")
        if self.tokens is None and not self.insecure:
            raise ValueError(_EXPOSED)
        return self
