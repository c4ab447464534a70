"""Gemm and MatMul as dense, with weights [O, I]."""

from __future__ import annotations

import numpy as np

from nnhal.arrays import Array
from nnhal_mlip.command.onnx_nodes.node_import import NodeImport


def gemm(each: NodeImport) -> bool:
    """alpha * A * B + beta * C, with A or B transposed if asked."""
    rows = each.input(0)
    if each.attribute("transA", 0):
        rows = each.step("transpose", [rows], {"axes": (1, 0)})
    alpha, beta = float(each.attribute("alpha", 1.0)), float(each.attribute("beta", 1.0))
    weights, alpha = _gemm_weights(each, alpha)
    adds = each.has(2) and beta != 0
    if alpha != 1:
        product = each.step("dense", [rows, weights])
        scaled = [product, each.derived(1, f"alpha {alpha:g}", _scalar(each, alpha))]
        if not adds:
            return each.finish("multiply", scaled)
        product = each.step("multiply", scaled)
    elif not adds:
        return each.finish("dense", [rows, weights])
    else:
        product = each.step("dense", [rows, weights])
    return _finish_sum(each, product, beta)


def matmul(each: NodeImport) -> bool:
    """A product with a constant matrix on the right."""
    right = each.constant(1)
    if right is None or right.ndim != 2 or len(each.shape()) < 2:
        return False
    return each.finish("dense", [each.input(0), each.derived(1, "transposed", np.ascontiguousarray(right.T))])


def _gemm_weights(each: NodeImport, alpha: float) -> tuple[str, float]:
    """Return the weights, and the factor that is not yet in them."""
    as_stored, values = bool(each.attribute("transB", 0)), each.constant(1)
    if values is None:
        weights = each.input(1)
        return weights if as_stored else each.step("transpose", [weights], {"axes": (1, 0)}), alpha
    if as_stored and alpha == 1:
        return each.input(1), 1.0
    how = "transposed" if alpha == 1 else f"times {alpha:g}" + ("" if as_stored else " transposed")
    values = _times(values, alpha)
    return each.derived(1, how, values if as_stored else np.ascontiguousarray(values.T)), 1.0


def _finish_sum(each: NodeImport, product: str, beta: float) -> bool:
    """Add beta * C, as a bias if it is constant and the same for each row."""
    added = each.constant(2)
    units = each.builder.values[product].shape[1]
    if added is None:
        summand = each.input(2)
        if beta != 1:
            factor = each.derived(2, f"beta {beta:g}", _scalar(each, beta))
            summand = each.step("multiply", [summand, factor])
        return each.finish("add", [product, summand])
    added = _times(added, beta)
    how = "bias" if beta == 1 else f"times {beta:g}"
    if added.size not in (1, units) or (added.ndim == 2 and added.shape[0] != 1):
        return each.finish("add", [product, each.input(2) if beta == 1 else each.derived(2, how, added)])
    if added.shape == (units,) and beta == 1:
        return each.finish("bias_add", [product, each.input(2)], {"axis": 1})
    bias = np.ascontiguousarray(np.broadcast_to(added.reshape(-1), units))
    return each.finish("bias_add", [product, each.derived(2, f"{how} of {units}", bias)], {"axis": 1})


def _times(values: Array, factor: float) -> Array:
    return values if factor == 1 else (values.astype(np.float32) * np.float32(factor)).astype(values.dtype)


def _scalar(each: NodeImport, value: float) -> Array:
    return np.array(value, each.builder.values[each.input(0)].element_type)
