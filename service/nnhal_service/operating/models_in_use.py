"""All models that are loaded, by names that an operator understands."""

from __future__ import annotations

from nnhal_service.native.session import NativeSessions
from nnhal_service.runtime import LoadedModel
from nnhal_service.serving.models.monitor import ServingMonitor


class ModelsInUse:
    """The models of the repository and those that native clients have loaded. Safe to use from several threads."""

    def __init__(self, records: ServingMonitor, sessions: NativeSessions) -> None:
        self._records = records
        self._sessions = sessions

    def by_name(self) -> dict[str, LoadedModel]:
        """Return them: "digits 1" is version 1 of a model of the repository, "digits of s7" is a session's."""
        served = {f"{model.name} {model.version}": model.loaded for model in self._records.models.all()}
        return served | {
            f"{name} of {owner.session.id}": model
            for owner in self._sessions.all()
            for name, model in owner.models.items()
            if not model.is_share
        }

    def all(self) -> list[LoadedModel]:
        """Return them without names."""
        return list(self.by_name().values())
