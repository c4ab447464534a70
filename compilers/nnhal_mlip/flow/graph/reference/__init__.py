"""Computes a graph in float32: what the results should be."""

from nnhal_mlip.flow.graph.reference.evaluation import compute, evaluate

__all__ = ["compute", "evaluate"]
