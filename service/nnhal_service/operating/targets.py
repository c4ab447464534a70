"""The loaded models that operators mean, and all that there are, by names that an operator understands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nnhal.errors import invalid_argument
from nnhal.v1 import framework_admin_pb2 as wire
from nnhal_service.native.session import NativeSessions
from nnhal_service.operating.earlier_plans import EarlierPlans
from nnhal_service.repository import Opener, Repository
from nnhal_service.runtime import LoadedModel
from nnhal_service.serving import ServedModel
from nnhal_service.serving.models.monitor import ServingMonitor

if TYPE_CHECKING:
    from nnhal_service.v2.repository import ServedRepository


class ModelsInUse:
    """The models of the repository and those that native clients have loaded. Safe to use from several threads."""

    def __init__(self, monitor: ServingMonitor, sessions: NativeSessions) -> None:
        self._monitor = monitor
        self._sessions = sessions

    def by_name(self) -> dict[str, LoadedModel]:
        """Return them: "digits 1" is version 1 of a model of the repository, "digits of s7" is a session's."""
        served = {f"{model.name} {model.version}": model.loaded for model in self._monitor.models.all()}
        return served | {
            f"{name} of {owner.session.id}": model
            for owner in self._sessions.all()
            for name, model in owner.models.items()
            if not model.is_share
        }

    def all(self) -> list[LoadedModel]:
        """Return them without names."""
        return list(self.by_name().values())


@dataclass(frozen=True, slots=True)
class OperatedRepository:
    """The repository of a framework, as operators use it."""

    models: Repository[ServedModel]
    served: ServedRepository
    """The models in the protocol's terms."""
    opener: Opener[ServedModel]
    earlier: EarlierPlans


class PlanTargets:
    """The models of the repository, and those of native clients' sessions."""

    def __init__(self, sessions: NativeSessions, repository: OperatedRepository | None) -> None:
        """Without a ``repository`` there are those of sessions only."""
        self._sessions = sessions
        self._repository = repository

    @property
    def repository(self) -> OperatedRepository:
        """The repository. Raises INVALID_ARGUMENT if there is none."""
        if self._repository is None:
            invalid_argument("this framework has no model repository")
        return self._repository

    def earlier(self, target: wire.PlanTarget) -> list[wire.EarlierPlan]:
        """Return the plans that a model of the repository ran by before; none of a session's model."""
        if target.session or self._repository is None:
            return []
        return self._repository.earlier.of(target.model, target.version)

    @contextmanager
    def model(self, target: wire.PlanTarget) -> Iterator[LoadedModel]:
        """Hold a model. Raises INVALID_ARGUMENT for an unknown session or model of it, and ServingError."""
        if target.session:
            yield self._of_session(target)
            return
        with self.repository.models.model(target.model, target.version) as lease:
            yield lease.model.loaded

    def _of_session(self, target: wire.PlanTarget) -> LoadedModel:
        if target.version:
            invalid_argument(f"version {target.version!r} of a session's model, expected none")
        sessions = {owner.session.id: owner for owner in self._sessions.all()}
        if target.session not in sessions:
            invalid_argument(f"session {target.session!r} is not open, expected one of {', '.join(sessions)}")
        return sessions[target.session].model(target.model)
