"""Zero-copy fallback: in what memory values pass between devices, and what has to be copied after all."""

from nnhal_service.fallback.edges import CLIENT, Edge, EdgeStrategy, Layer, Side, connect, edge_ns
from nnhal_service.fallback.memory import FallbackLayout, Placement, lay_out
from nnhal_service.fallback.memory_manager import FallbackMemory, FallbackMemoryManager
from nnhal_service.fallback.values import Value, Values, values_of

__all__ = [
    "CLIENT",
    "Edge",
    "EdgeStrategy",
    "FallbackLayout",
    "FallbackMemory",
    "FallbackMemoryManager",
    "Layer",
    "Placement",
    "Side",
    "Value",
    "Values",
    "connect",
    "edge_ns",
    "lay_out",
    "values_of",
]
