"""Counts of the direct runs of an execution."""

from __future__ import annotations

from typing import NamedTuple


class RunUsage(NamedTuple):
    """Runs that succeeded, runs that failed, and the time that the successful ones took on the device's host."""

    runs: int = 0
    failed_runs: int = 0
    duration_ns: int = 0

    def plus(self, failed: int, duration_ns: int) -> RunUsage:
        """Add ``failed`` failed runs or, if that is 0, one successful run of ``duration_ns``."""
        if failed:
            return self._replace(failed_runs=self.failed_runs + failed)
        return RunUsage(self.runs + 1, self.failed_runs, self.duration_ns + duration_ns)
