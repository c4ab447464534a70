"""The errors of the front ends.

NnhalError
└── FrontendError         a user's model that cannot be imported
    ├── InvalidModel      a model that breaks the rules of its format, or does not fit the given shapes
    │   └── UnreadableModel  a model in which a reader has failed: only the log can say at what
    ├── UnsupportedInput  an input of the model whose element type the NN HAL lacks
    └── UnsupportedNode   a node that the NN HAL cannot express
"""

from __future__ import annotations

from nnhal.errors import NnhalError


class FrontendError(NnhalError):
    """A user's model that cannot be imported."""


class InvalidModel(FrontendError):  # noqa: N818 - the base says that it is an error
    """A model that breaks the rules of its format, or does not fit the given shapes."""


class UnreadableModel(InvalidModel):
    """A model in which a reader has failed. Its cause is what the reader raised."""


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
