"""In which layout each value of a graph lies, as the operators around it say."""

from __future__ import annotations

from collections.abc import Iterator

from nnhal_mlip.flow.graph.flow_graph import FlowGraph, FlowNode
from nnhal_mlip.flow.graph.operators import TABLES, Operator

_LIKE_INPUT = frozenset(
    {
        Operator.ADD,
        Operator.BATCH_NORM,
        Operator.BIAS_ADD,
        Operator.CLIP,
        Operator.CONCATENATE,
        Operator.COPY,
        Operator.DIVIDE,
        Operator.DROPOUT,
        Operator.LAYER_NORM,
        Operator.MEAN,
        Operator.MULTIPLY,
        Operator.PAD,
        Operator.PRELU,
        Operator.RELU,
        Operator.SOFTMAX,
        Operator.STRIDED_SLICE,
        Operator.SUBTRACT,
        *TABLES,
    }
)
_SOURCE, _OTHER = "NCHW", "NHWC"


def value_layouts(graph: FlowGraph) -> dict[str, str]:
    """Return NCHW, NHWC or NC for each value of rank 4 or 2; empty for other ranks.

    Convolutions, pools and layout transforms say the layouts of what they read and write, and operators such as a sum
    hand them on, forwards and backwards. What no operator decides, as between two reshapes, has the layout of the
    user's model: NCHW if that occurs anywhere in the graph.
    """
    groups = _Groups()
    known: dict[str, str] = {}
    for node in graph.nodes:
        for name, layout in _said(node):
            known.setdefault(name, layout)
        if node.operator in _LIKE_INPUT:
            images = [name for name in (*node.inputs, node.output) if _is_image(graph, name)]
            for name in images[1:]:
                groups.join(images[0], name)
    by_group = {groups.root(name): layout for name, layout in reversed(known.items())}
    undecided = _SOURCE if _SOURCE in known.values() else _OTHER
    found = {2: "NC"}
    return {
        name: by_group.get(groups.root(name), undecided) if value.rank == 4 else found.get(value.rank, "")
        for name, value in graph.values.items()
    }


def _said(node: FlowNode) -> Iterator[tuple[str, str]]:
    match node.operator:
        case Operator.CONV2D | Operator.CONV2D_TRANSPOSE:
            layout = node.text("data_layout")
            yield node.inputs[0], layout
            yield node.output, layout
        case (
            Operator.AVG_POOL2D
            | Operator.MAX_POOL2D
            | Operator.GLOBAL_AVG_POOL2D
            | Operator.GLOBAL_MAX_POOL2D
            | Operator.UPSAMPLING
        ):
            yield node.inputs[0], node.text("layout")
            yield node.output, node.text("layout")
        case Operator.LAYOUT_TRANSFORM:
            yield node.inputs[0], node.text("src_layout")
            yield node.output, node.text("dst_layout")


def _is_image(graph: FlowGraph, name: str) -> bool:
    return graph.values[name].rank == 4 and name not in graph.constants


class _Groups:
    """Values that have the same layout."""

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}

    def root(self, name: str) -> str:
        while (parent := self._parents.get(name, name)) != name:
            self._parents[name] = name = self._parents.get(parent, parent)
        return name

    def join(self, one: str, other: str) -> None:
        self._parents[self.root(other)] = self.root(one)
