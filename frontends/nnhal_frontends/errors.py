"""The errors of the front ends.

NnhalError
└── FrontendError         a user's model that cannot be imported
    ├── InvalidModel      a model that breaks the rules of its format
    │   ├── UnfitSubgraphs   branches or turns of a loop whose values are others than those around them
    │   ├── UnreadableModel  a model in which a reader has failed: only the log can say at what
    │   └── UnfitShape       a shape that the user gives for an input, and that is not one of it
    ├── UnsupportedInput  an input of the model whose element type the NN HAL lacks
    └── UnsupportedNode   a node that the NN HAL cannot express
        └── UnsupportedNodes  several of them, or one that no extension takes either
"""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.errors import NnhalError

_MOST_NAMED = 8
_LONGEST_NAME = 80


class FrontendError(NnhalError):
    """A user's model that cannot be imported."""


class InvalidModel(FrontendError):  # noqa: N818 - the base says that it is an error
    """A model that breaks the rules of its format."""


class UnreadableModel(InvalidModel):
    """A model in which a reader has failed. Its cause is what the reader raised."""


class UnfitSubgraphs(InvalidModel):
    """Subgraphs whose inputs and outputs are others than those of the operation that refers to them."""


class UnfitShape(InvalidModel):
    """A shape that the user gives for an input, and that is not one of it: the user errs, and not the model."""


class UnsupportedInput(FrontendError):  # noqa: N818 - as above
    """An input of the model whose element type the NN HAL lacks."""


class UnsupportedNode(FrontendError):  # noqa: N818 - as above
    """A node that the NN HAL cannot express.

    ``reason`` says what was got, ``supported`` what was expected unless that is plain from the reason.
    """

    def __init__(self, node: str, op_type: str, reason: str, supported: str = "") -> None:
        super().__init__(f"node '{node}' ({op_type}): {reason}" + (f"; supported: {supported}" if supported else ""))
        self.node = node
        self.op_type = op_type
        self.reason = reason
        self.supported = supported


class UnsupportedNodes(UnsupportedNode):
    """The nodes of a model that nothing here can run. The message names each operator once, with its first node."""

    def __init__(self, refused: Sequence[UnsupportedNode]) -> None:
        first: dict[str, UnsupportedNode] = {}
        counts: dict[str, int] = {}
        for node in refused:
            first.setdefault(node.op_type, node)
            counts[node.op_type] = counts.get(node.op_type, 0) + 1
        named = [
            f"{op_type} ({_nodes(counts[op_type])} '{_shortened(node.node)}'): {_shortened(node.reason)}"
            for op_type, node in list(first.items())[:_MOST_NAMED]
        ]
        if len(first) > _MOST_NAMED:
            named.append(f"and {len(first) - _MOST_NAMED} other operators")
        head = refused[0]
        super().__init__(head.node, head.op_type, head.reason)
        self.args = ("nothing here runs " + "; ".join(named),)
        self.refused = tuple(refused)


def _nodes(count: int) -> str:
    return "node" if count == 1 else f"{count} nodes, first"


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_NAME else text[:_LONGEST_NAME] + "..."
