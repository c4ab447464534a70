"""``python -m benchmarks.serve --breakdown``: where the time of a request goes, by stages, threads and system calls."""

from benchmarks.serve.breakdown.measured import Breakdown, break_down
from benchmarks.serve.breakdown.tables import tables

__all__ = ["Breakdown", "break_down", "tables"]
