"""Node of the file that each node of a graph is. Names of nodes may be empty or repeated, so passes need others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import onnx


class NodePlace(NamedTuple):
    """A node of the file's main graph."""

    number: int
    """Its index in the graph."""
    name: str
    """What users see: the file's own name, or the operator and the number for a node without one."""


def with_own_names(
    model: onnx.ModelProto,
    called: onnx.ModelProto,
    original: Callable[[onnx.NodeProto], onnx.NodeProto],
    is_copy: bool,
) -> tuple[onnx.ModelProto, dict[str, NodePlace]]:
    """Return a model whose nodes have names of their own, and by these the nodes of the file.

    ``model`` is ``called`` after its functions have been inlined: what a function consists of is the node that calls
    it. There are no places if the two do not fit. ``original`` gives the node of the file for one that stands in for
    it. The model is copied if names change, unless it ``is_copy`` already. A node that is left to the extension has
    its name too, by which a device says what has failed.
    """
    indexes = _indexes(model, called)
    names = [node.name for node in model.graph.node]
    shown = names
    if "" in names:
        nodes = enumerate(model.graph.node)
        shown = [names[number] or f"{original(node).op_type}_{number}" for number, node in nodes]
    own = _unlike(shown)
    if own != names:
        if not is_copy:
            copy = onnx.ModelProto()
            copy.CopyFrom(model)
            model = copy
        for node, name in zip(model.graph.node, own, strict=True):
            node.name = name
    return model, {name: NodePlace(number, said) for name, number, said in zip(own, indexes, shown, strict=False)}


def _unlike(shown: list[str]) -> list[str]:
    """The names, with others in place of those that are repeated."""
    taken = Counter(shown)
    if len(taken) == len(shown):
        return shown
    own: list[str] = []
    given: set[str] = set()
    for number, name in enumerate(shown):
        while name in given:  # the first of several has the name
            name = f"{name}_{number}"
            name += "_" * (name in taken)
        given.add(name)
        own.append(name)
    return own


def _indexes(model: onnx.ModelProto, called: onnx.ModelProto) -> list[int]:
    """Return the index in the file of each node; nothing if that is unknown."""
    bodies = {(each.domain, each.name, each.overload): each.node for each in called.functions}
    if not bodies:
        return list(range(len(model.graph.node)))
    counts = [_inlined_count([node], bodies) for node in called.graph.node]
    indexes = [index for index, count in enumerate(counts) for _ in range(count)]
    return indexes if len(indexes) == len(model.graph.node) else []


def _inlined_count(
    nodes: Iterable[onnx.NodeProto], bodies: Mapping[tuple[str, str, str], Iterable[onnx.NodeProto]]
) -> int:
    found = 0
    for node in nodes:
        body = bodies.get((node.domain, node.op_type, node.overload))
        found += 1 if body is None else _inlined_count(body, bodies)
    return found
