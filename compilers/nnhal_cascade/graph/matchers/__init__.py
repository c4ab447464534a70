"""From a HAL model to parts, one module for each family of operations."""

from nnhal_cascade.graph.matchers.build import build_graph

__all__ = ["build_graph"]
