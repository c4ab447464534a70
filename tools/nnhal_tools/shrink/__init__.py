"""Reduce what fails to the least that still fails: a model, or anything that has simpler forms."""

from nnhal_tools.shrink.case import Branch, Case
from nnhal_tools.shrink.search import MOST_TRIES, Judge, Search, Shrunk, shrink

__all__ = ["MOST_TRIES", "Branch", "Case", "Judge", "Search", "Shrunk", "shrink"]
