"""What is known of a host and its models: measured, and kept as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


class FiguresError(Exception):
    """Figures that cannot be read. The message says what was got, and what was expected."""


@dataclass(frozen=True, slots=True)
class ModelKind:
    """Models that take the same time and the same memory."""

    name: str
    """What they are."""
    service_seconds: tuple[float, ...]
    """Measured times that a request takes a device worker. Each simulated request draws one of them."""
    load_seconds: tuple[float, ...]
    """How long it takes to unload one such model and to load another: measured ones, to draw from."""
    memory_bytes: int
    """Memory of one loaded model, over all processes of a host."""

    @property
    def mean_seconds(self) -> float:
        """The mean time of a request on a device worker."""
        return sum(self.service_seconds) / len(self.service_seconds)


@dataclass(frozen=True, slots=True)
class HostFigures:
    """A host. A request passes its front, then waits for one of its device workers. All hosts are alike."""

    kinds: tuple[ModelKind, ...]
    """The kinds of models. Model number n is of kind n modulo their number."""
    front_seconds: float
    """How long a front is taken by a request: the framework's processor time."""
    way_seconds: tuple[float, ...]
    """The rest of a request's latency, for which no other has to wait: the client, the network, a balancer. Measured
    ones, to draw from.
    """
    workers: int
    """Requests that the devices of a host execute at a time."""
    fronts: int = 1
    """Front workers of a host. Each serves one request at a time."""
    memory_bytes: int = 1 << 62
    """Memory of a host for loaded models."""
    most_requests: int = 1024
    """Requests of a host under way at a time. It refuses more."""

    def kind_of(self, model: int) -> ModelKind:
        """Return the kind of a model."""
        return self.kinds[model % len(self.kinds)]


def read_figures(path: Path) -> HostFigures:
    """Read what ``write_figures`` has written. Raises FiguresError or OSError."""
    try:
        values: dict[str, Any] = json.loads(path.read_text())
        kinds = tuple(
            ModelKind(**kind | {name: tuple(kind[name]) for name in ("service_seconds", "load_seconds")})
            for kind in values.pop("kinds")
        )
        figures = HostFigures(kinds=kinds, **values | {"way_seconds": tuple(values["way_seconds"])})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FiguresError(f"{path}: expected the JSON of a host's figures: {error}") from error
    if not kinds or not figures.way_seconds or not all(kind.service_seconds and kind.load_seconds for kind in kinds):
        raise FiguresError(f"{path}: expected way_seconds, and kinds, each with service_seconds and load_seconds")
    return figures


def write_figures(figures: HostFigures, path: Path) -> None:
    """Write figures as JSON."""
    path.write_text(json.dumps(asdict(figures), indent=1) + "\n")
