"""Zero-copy fallback: the memory in which values pass between devices, and the copies that remain necessary."""

from nnhal_service.fallback.edges import (
    CLIENT,
    Edge,
    EdgeStrategy,
    Layer,
    Side,
    client_memory,
    connect,
    edge_ns,
    price_ns,
)
from nnhal_service.fallback.memory_manager import (
    FallbackLayout,
    FallbackMemory,
    FallbackMemoryManager,
    MemoryPlacement,
    lay_out,
)
from nnhal_service.fallback.values import PassedValue, PassedValues, values_of

__all__ = [
    "CLIENT",
    "Edge",
    "EdgeStrategy",
    "FallbackLayout",
    "FallbackMemory",
    "FallbackMemoryManager",
    "Layer",
    "MemoryPlacement",
    "PassedValue",
    "PassedValues",
    "Side",
    "client_memory",
    "connect",
    "edge_ns",
    "lay_out",
    "price_ns",
    "values_of",
]
