"""Telling graphs apart."""

from __future__ import annotations

from hashlib import blake2b

from nnhal_cascade.graph.cascader_graph import CascaderGraph

DIGEST_BYTES = 16


def graph_digest(graph: CascaderGraph) -> bytes:
    """Return a digest of a graph's parts and tensors. It does not cover the values of constants."""
    digest = blake2b(digest_size=DIGEST_BYTES)
    for tensor in graph.tensors:
        digest.update(repr(tensor).encode())
    for part in graph.parts:
        inputs = [each.tensor for each in part.inputs]
        what = (part.kind, part.operations, inputs, part.output, part.kernel, part.constants, part.activation)
        digest.update(repr((*what, part.operation, part.passes)).encode())
    return digest.digest()
