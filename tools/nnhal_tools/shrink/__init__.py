"""Reduce a model that fails to the least that still fails."""

from nnhal_tools.shrink.case import Branch, Case
from nnhal_tools.shrink.search import MOST_TRIES, Judge, Shrunk, shrink

__all__ = ["MOST_TRIES", "Branch", "Case", "Judge", "Shrunk", "shrink"]
