"""The log of runs of a front worker: its recorded runs and its fallbacks are the framework's to keep."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress

from nnhal_service.front_workers.interfaces import RunDesk
from nnhal_service.front_workers.peer import Peer
from nnhal_service.serving import ServingError
from nnhal_service.serving.history.ended_runs import EndedRun


class RemoteRecorder:
    """The Recorder of a front worker, and what is told of its fallbacks. Safe to use from several threads."""

    def __init__(self, framework: Peer, recorded: Collection[str]) -> None:
        self._framework = framework
        self.recorded = recorded

    def take(self, run: EndedRun) -> EndedRun | None:
        """Hand a run to the framework; nothing of it is left here."""
        with suppress(ServingError):  # the framework is gone
            self._framework.begin(RunDesk.keep, run)
        return None

    def fell_back(self, model: str, devices: Sequence[str]) -> None:
        """Tell the framework of a fallback."""
        with suppress(ServingError):  # the framework is gone
            self._framework.begin(RunDesk.fell_back, model, devices)
