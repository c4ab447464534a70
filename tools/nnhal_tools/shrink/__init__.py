"""Reduce a model that fails to the least that still fails."""

from nnhal_tools.shrink.case import Case
from nnhal_tools.shrink.search import Judge, Shrunk, shrink

__all__ = ["Case", "Judge", "Shrunk", "shrink"]
