"""Which of the runs that have ended are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from nnhal.v1 import framework_admin_pb2 as wire

SHOWN = 100
"""Runs on a page, unless all are asked for."""


@dataclass(frozen=True, slots=True)
class RunSelection:
    """What a run must be; an empty value asks for nothing."""

    model: str = ""
    client: str = ""
    """What its client or its request's id contains, in any case."""
    errors: bool = False
    """Only those that failed or fell back."""
    everything: bool = False
    """Whether more than the newest are shown."""

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> RunSelection:
        """Return the selection of a query."""
        return cls(
            parameters.get("model", ""),
            parameters.get("client", ""),
            parameters.get("errors", "") == "yes",
            parameters.get("all", "") == "yes",
        )

    @property
    def parameters(self) -> dict[str, str]:
        """The query of the selection."""
        given = {
            "model": self.model,
            "client": self.client,
            "errors": "yes" if self.errors else "",
            "all": "yes" if self.everything else "",
        }
        return {name: value for name, value in given.items() if value}

    @property
    def is_narrow(self) -> bool:
        """Whether some runs are left out on purpose."""
        return bool(self.model or self.client or self.errors)

    @property
    def whole(self) -> str:
        """The address of the same runs, all of them."""
        return f"/runs?{urlencode(self.parameters | {'all': 'yes'})}"

    def of_runs(self, runs: Sequence[wire.FinishedRun]) -> list[wire.FinishedRun]:
        """Return the runs that are as asked, the newest first. ``runs`` have the newest last."""
        return [run for run in reversed(runs) if self._takes(run)]

    def _takes(self, run: wire.FinishedRun) -> bool:
        if self.model and run.model != self.model:
            return False
        if self.errors and not (run.error or run.fell_back):
            return False
        wanted = self.client.lower()
        return not wanted or wanted in run.client.lower() or wanted in run.request_id.lower()
