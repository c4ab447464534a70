"""Runs that the framework keeps for its operators, whoever asks for them: clients of the protocol or native ones."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from nnhal_service.runtime.devices.notes import Note, no_note
from nnhal_service.serving.history.client_runs import ClientModelRuns
from nnhal_service.serving.history.ended_runs import QUIET_SECONDS, EndedRun, EndedRuns
from nnhal_service.serving.history.refused_calls import RefusedCalls
from nnhal_service.serving.history.run_recordings import RunRecordings
from nnhal_service.serving.history.statistics import RequestCounts
from nnhal_service.serving.models.served_model import ServedModelRegister


class ServingMonitor:
    """Counts, the log of runs, and recordings. Safe to use from several threads."""

    def __init__(self, note: Note = no_note) -> None:
        """``note`` is called for runs that fell back."""
        self.note = note
        self.recordings = RunRecordings()
        self.log = EndedRuns(self.recordings, self.fell_back, self.overloaded)
        self.models: ServedModelRegister = ServedModelRegister()
        """The models of the repository."""
        self.client_models = ClientModelRuns(self.log)
        """The runs of the models that clients have loaded themselves."""
        self.refused = RefusedCalls()
        self._lock = threading.Lock()
        self._noted: dict[tuple[str, tuple[str, ...]], float] = {}

    def counts(self) -> RequestCounts:
        """The sums over all models since the process started."""
        sums = self.models.counts()
        sums.add(self.client_models.counts)
        return sums

    def keep(self, run: EndedRun) -> None:
        """Keep a run that another process has recorded."""
        self.log.keep(run)

    def fell_back(self, model: str, devices: Sequence[str]) -> None:
        """Note that a run of a model fell back, since ``devices`` had failed; none if the whole model did at once."""
        key, now = (model, tuple(devices)), time.monotonic()
        with self._lock:
            self._noted = {known: at for known, at in self._noted.items() if now - at < QUIET_SECONDS}
            if key in self._noted:
                return
            self._noted[key] = now
        if devices:
            text = f"model {model} fell back: {', '.join(devices)} failed, and another device ran the steps"
        else:
            text = f"model {model} fell back: all of it ran on the fallback device"
        self.note("fell back", model, text)

    def overloaded(self, model: str, why: str) -> None:
        """Note that a model refuses requests since there are too many."""
        self.note("overloaded", model, f"model {model} refuses requests: {why}")
