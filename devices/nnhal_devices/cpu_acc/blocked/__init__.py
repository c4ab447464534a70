"""Keep float images in ONNX Runtime's blocked layout from one convolution to the next.

Between convolutions ONNX Runtime stores images in blocks of channels (NCHWc), which its fastest kernels need. It leaves
that layout, at the price of two copies, for every operation that it cannot run there. The functions here change a
lowered graph so that it need not. Results are the same but for the rounding of floats.
"""

from __future__ import annotations

from nnhal_devices.cpu_acc.blocked.activations import carry_activations, multiply_slopes
from nnhal_devices.cpu_acc.blocked.alignment import align_channels
from nnhal_devices.cpu_acc.blocked.block_size import block_channels
from nnhal_devices.cpu_acc.blocked.heads import split_heads
from nnhal_devices.cpu_acc.blocked.images import filter_of
from nnhal_devices.cpu_acc.graph import LoweredGraph

__all__ = ["keep_blocked", "rewrite"]


def keep_blocked(graph: LoweredGraph) -> None:
    """Rewrite a finished graph for this processor: its images, if ONNX Runtime blocks them here, and slopes."""
    if any(filter_of(graph.constants, node) is not None for node in graph.nodes):
        block = block_channels()
        if block is not None:
            rewrite(graph, block)
    multiply_slopes(graph)


def rewrite(graph: LoweredGraph, block: int) -> None:
    """Rewrite a finished graph for blocks of so many channels."""
    align_channels(graph, block)
    split_heads(graph, block)
    carry_activations(graph, block)
    graph.drop_unread_constants()
