"""Options that operators of one family share, although the schema has a table for each operator."""

from __future__ import annotations

from typing import Protocol

from nnhal_frontends.tflite.graph import OptionsTable


class ActivationOptions(OptionsTable, Protocol):
    """The options of an operator with a fused activation."""

    def FusedActivationFunction(self) -> int:  # noqa: N802 - the schema's name, as below
        """An ActivationFunctionType."""


class WindowOptions(OptionsTable, Protocol):
    """The options of a window that slides over images."""

    def Padding(self) -> int:  # noqa: N802
        """A padding scheme."""

    def StrideW(self) -> int:  # noqa: N802
        """Columns from one window to the next."""

    def StrideH(self) -> int:  # noqa: N802
        """Rows from one window to the next."""


class DilatedWindowOptions(WindowOptions, Protocol):
    """The options of a window with gaps."""

    def DilationWFactor(self) -> int:  # noqa: N802
        """Columns from one tap to the next."""

    def DilationHFactor(self) -> int:  # noqa: N802
        """Rows from one tap to the next."""


class ResizeOptions(OptionsTable, Protocol):
    """The options of a resize."""

    def AlignCorners(self) -> bool:  # noqa: N802
        """Whether the centres of the corner pixels keep their positions."""

    def HalfPixelCenters(self) -> bool:  # noqa: N802
        """Whether the centres of pixels are at half-integer positions."""


class BlockOptions(OptionsTable, Protocol):
    """The options of an exchange between depth and space."""

    def BlockSize(self) -> int:  # noqa: N802
        """Height and width of a block."""


class LstmCellOptions(ActivationOptions, Protocol):
    """The options of an LSTM."""

    def CellClip(self) -> float:  # noqa: N802
        """The bound to which the cell state is clipped."""

    def ProjClip(self) -> float:  # noqa: N802
        """The bound to which the projection is clipped."""
