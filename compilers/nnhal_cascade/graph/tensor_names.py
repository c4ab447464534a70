"""The names of tensors, such that no two are equal."""

from __future__ import annotations

from collections import Counter

from nnhal_cascade.graph.cascader_graph import CascaderGraph


def tensor_names(graph: CascaderGraph) -> list[str]:
    """Return the name of each tensor, with its number if another one has the same name."""
    uses = Counter(tensor.name for tensor in graph.tensors)
    return [
        tensor.name if uses[tensor.name] == 1 else f"{tensor.name} (tensor {tensor.index})" for tensor in graph.tensors
    ]
