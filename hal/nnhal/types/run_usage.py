"""What has been run on behalf of somebody else."""

from __future__ import annotations

from typing import NamedTuple


class RunUsage(NamedTuple):
    """Runs that succeeded and what they took on the device's host, nanoseconds, and runs that failed."""

    runs: int = 0
    failed_runs: int = 0
    duration_ns: int = 0

    def plus(self, failed: int, duration_ns: int) -> RunUsage:
        """With one more run, which failed or took so long."""
        if failed:
            return self._replace(failed_runs=self.failed_runs + failed)
        return RunUsage(self.runs + 1, self.failed_runs, self.duration_ns + duration_ns)
