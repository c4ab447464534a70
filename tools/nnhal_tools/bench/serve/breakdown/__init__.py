"""``nnhal bench serve --breakdown``: where the time of a request goes, by stages, threads and system calls."""

from nnhal_tools.bench.serve.breakdown.measured import Breakdown, break_down
from nnhal_tools.bench.serve.breakdown.tables import tables

__all__ = ["Breakdown", "break_down", "tables"]
