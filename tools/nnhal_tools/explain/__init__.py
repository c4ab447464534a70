"""Explanations of plans, for a terminal."""

from nnhal_tools.explain.tables import show, show_ledger

__all__ = ["show", "show_ledger"]
