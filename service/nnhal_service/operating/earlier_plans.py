"""The plans by which versions of models were served before, whoever has changed them: to have one again."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from contextlib import suppress
from dataclasses import dataclass, field

from nnhal.v1 import framework_admin_pb2 as wire
from nnhal.v1 import framework_pb2
from nnhal_service.repository import Repository
from nnhal_service.runtime import SketchedPlan
from nnhal_service.serving import ServedModel, ServingError

_KEPT_OF_EACH = 8
"""Plans of one version that are kept."""
_VERSIONS = 1024
"""Versions of which plans are kept, loaded or not; what was changed longest ago is forgotten first."""


@dataclass(slots=True)
class _Served:
    serial: int
    plan: wire.EarlierPlan
    """That by which it serves, or served last."""
    earlier: deque[wire.EarlierPlan] = field(default_factory=lambda: deque(maxlen=_KEPT_OF_EACH))


class EarlierPlans:
    """Keeps what is needed to plan again as before, and no model. Safe to use from several threads."""

    def __init__(self, repository: Repository[ServedModel]) -> None:
        self._repository = repository
        self._lock = threading.Lock()
        self._served: OrderedDict[tuple[str, str], _Served] = OrderedDict()

    def look(self, name: str) -> None:
        """Keep the plans of a model that serves by others since the last look."""
        for version in self._repository.versions(name):
            with suppress(ServingError), self._repository.model(name, version) as lease, self._lock:
                self._note((name, version), lease.serial, lease.model.loaded.original)

    def of(self, name: str, version: str) -> list[wire.EarlierPlan]:
        """Return the plans that a version had, the oldest first; an empty version is the newest that is ready."""
        with self._lock:
            known = self._served.get((name, version or next(iter(self._repository.versions(name)[-1:]), "")))
            return [] if known is None else list(known.earlier)

    def _note(self, key: tuple[str, str], serial: int, sketch: SketchedPlan) -> None:
        known = self._served.get(key)
        if known is None:
            known = self._served[key] = _Served(serial, _described(sketch))
        elif known.serial != serial:
            plan = _described(sketch)
            if not _are_alike(known.plan, plan):
                known.earlier.append(known.plan)
                known.plan = plan
            known.serial = serial
        self._served.move_to_end(key)
        while len(self._served) > _VERSIONS:
            self._served.popitem(last=False)


def _described(sketch: SketchedPlan) -> wire.EarlierPlan:
    return wire.EarlierPlan(
        since_ns=time.time_ns(),
        pins=[framework_pb2.Pin(match=pin.match, device=pin.device) for pin in sketch.choice.pins],
        devices=sketch.survey.descriptions,
        steps=[step.device for step in sketch.plan.steps],
        modelled_ns=sketch.modelled_ns or 0.0,
    )


def _are_alike(one: wire.EarlierPlan, other: wire.EarlierPlan) -> bool:
    return (one.pins, one.devices, one.steps) == (other.pins, other.devices, other.steps)
