"""Options that operators of one family share, whatever table of the schema they are read from."""

from __future__ import annotations

from typing import Protocol

from nnhal_service.frontends.tflite.graph import OptionsTable


class ActivationOptions(OptionsTable, Protocol):
    """Those of an operator with a fused activation."""

    def FusedActivationFunction(self) -> int:  # noqa: N802 - the schema's names, here and below
        """An ActivationFunctionType."""


class WindowOptions(OptionsTable, Protocol):
    """Those of a window that slides over images."""

    def Padding(self) -> int:  # noqa: N802
        """A padding scheme."""

    def StrideW(self) -> int:  # noqa: N802
        """Columns from one window to the next."""

    def StrideH(self) -> int:  # noqa: N802
        """Rows from one window to the next."""


class DilatedWindowOptions(WindowOptions, Protocol):
    """Those of a window with gaps."""

    def DilationWFactor(self) -> int:  # noqa: N802
        """Columns from one tap to the next."""

    def DilationHFactor(self) -> int:  # noqa: N802
        """Rows from one tap to the next."""


class ResizeOptions(OptionsTable, Protocol):
    """Those of a resize."""

    def AlignCorners(self) -> bool:  # noqa: N802
        """Whether the corners' centres stay where they are."""

    def HalfPixelCenters(self) -> bool:  # noqa: N802
        """Whether pixels have their centres at halves."""


class BlockOptions(OptionsTable, Protocol):
    """Those of an exchange between depth and space."""

    def BlockSize(self) -> int:  # noqa: N802
        """Height and width of a block."""


class LstmCellOptions(ActivationOptions, Protocol):
    """Those of an LSTM."""

    def CellClip(self) -> float:  # noqa: N802
        """Where the cell state is clipped."""

    def ProjClip(self) -> float:  # noqa: N802
        """Where the projection is clipped."""
