"""Graphs in which ONNX Runtime would move a Transpose past a Resize, to axes between which it does not interpolate.

It interpolates between the axes of images with channels first or last, and refuses others in the run. If the axes are
an attribute of the Resize, it loses the sizes, and refuses the graph.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnx import GraphProto, NodeProto, TensorProto, numpy_helper

_IMAGES: dict[int, Sequence[set[int]]] = {4: [{2, 3}, {1, 2}], 5: [{2, 3, 4}]}
"""The axes of images by the rank; between those of other ranks it always interpolates."""
_OTHER_AXES = frozenset({"Flatten", "Gemm", "MatMul", "Reshape", "Squeeze", "Unsqueeze"})
"""Nodes past which no Transpose is moved."""

Axes = tuple[int, ...]


def mixes_images(graph: GraphProto) -> bool:
    """Return whether a Transpose before a Resize could be moved past it so that ONNX Runtime fails."""
    transposes = [node for node in graph.node if node.op_type == "Transpose"]
    transposing = {node.output[0]: perm for node in transposes if (perm := _axes(node, "perm"))}
    resizing = [node for node in graph.node if node.op_type == "Resize"] if transposing else ()
    if not resizing:
        return False
    makers = {output: node for node in graph.node for output in node.output}
    constants = {tensor.name: tensor for tensor in graph.initializer}
    return any(
        _axes(node, "axes") is not None or not _is_image(_resized(node, constants, len(perm)), perm)
        for node in resizing
        if _axes(node, "axes") is not None or _interpolates(node)
        for perm in _arriving(node.input[0], makers, transposing)
        if perm != tuple(range(len(perm)))
    )


def _axes(node: NodeProto, name: str) -> Axes | None:
    return next((tuple(a.ints) for a in node.attribute if a.name == name), None)


def _interpolates(node: NodeProto) -> bool:
    return any(a.name == "mode" and a.s != b"nearest" for a in node.attribute)


def _resized(node: NodeProto, constants: dict[str, TensorProto], rank: int) -> set[int]:
    """Return the axes that a Resize changes; those of images with channels first if only its sizes are known."""
    factors = constants.get(node.input[2]) if len(node.input) > 2 else None
    if factors is None or factors.dims != [rank]:
        return set(range(2, rank))
    return {axis for axis, factor in enumerate(numpy_helper.to_array(factors)) if factor != 1}


def _is_image(resized: set[int], perm: Axes) -> bool:
    moved = {perm[axis] for axis in resized}
    return any(moved <= axes for axes in _IMAGES.get(len(perm), [moved]))


def _arriving(tensor: str, makers: dict[str, NodeProto], transposing: dict[str, Axes]) -> set[Axes]:
    """Return the transpositions, alone and one after another, that could be moved to a tensor."""
    found: set[Axes] = set()
    seen: set[tuple[str, Axes | None]] = set()
    waiting: list[tuple[str, Axes | None]] = [(tensor, None)]
    while waiting:
        name, after = state = waiting.pop()
        node = makers.get(name)
        if node is None or state in seen or node.op_type in _OTHER_AXES:
            continue
        seen.add(state)
        perm = transposing.get(name)
        if perm is not None:
            if after is not None and len(after) != len(perm):
                continue
            after = perm if after is None else tuple(perm[axis] for axis in after)
            found.add(after)
        waiting.extend((each, after) for each in node.input)
    return found
