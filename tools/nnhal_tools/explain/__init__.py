"""Explanations of plans, for a terminal."""

from nnhal_tools.explain.tables import show, show_ledger
from nnhal_tools.explain.unknown_times import with_unknown_times

__all__ = ["show", "show_ledger", "with_unknown_times"]
