"""Reduce what fails to the least that still fails: a model, or anything that has simpler forms."""

from nnhal_tools.shrink.case import Case
from nnhal_tools.shrink.search import Judge, Search, Shrunk, shrink

__all__ = ["Case", "Judge", "Search", "Shrunk", "shrink"]
