"""Options of the compilation of a subgraph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from nnhal_mlip.compiler.errors import MlipCompileError
from nnhal_mlip.program.ocm_placement import DEFAULT_PAGE_BYTES, PAGE_SIZES
from nnhal_mlip.program.program import MAX_TILES, OCM_BYTES, TILE_COUNTS
from nnhal_mlip.timing.profile import TimingProfile, read_profile


@dataclass(frozen=True, slots=True)
class MlipCompilerOptions:
    """Options of the compilation of a subgraph."""

    quantize: Literal["fp16", "int8"] = "fp16"
    num_tiles: int = MAX_TILES
    """The most tiles that the program may take: 1, 2, 4 or 8."""
    wb_pin_ocm: bool = False
    """True if weights and biases stay in the tiles' memory from run to run."""
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """For int8: the least and the largest real value of inputs and results, by the name of the value or of the kernel.
    Values with scales in the files need none.
    """
    profile: TimingProfile = field(default_factory=read_profile)
    page_bytes: int = DEFAULT_PAGE_BYTES
    ocm_base: int = 0
    """The first byte of each tile's memory that the program may use."""
    ocm_size: int = OCM_BYTES
    """How many bytes of it."""

    def __post_init__(self) -> None:
        if self.quantize not in ("fp16", "int8"):
            raise MlipCompileError(f"quantize is {self.quantize!r}, expected fp16 or int8")
        if self.num_tiles not in TILE_COUNTS:
            raise MlipCompileError(f"num_tiles is {self.num_tiles}, expected one of {', '.join(map(str, TILE_COUNTS))}")
        if self.page_bytes not in PAGE_SIZES:
            raise MlipCompileError(
                f"page_bytes is {self.page_bytes}, expected one of {', '.join(map(str, PAGE_SIZES))}"
            )
        for name, value in (("ocm_base", self.ocm_base), ("ocm_size", self.ocm_size)):
            if value < 0 or value % self.page_bytes:
                raise MlipCompileError(f"{name} is {value}, expected whole pages of {self.page_bytes} bytes")
        if not 0 < self.ocm_size <= OCM_BYTES - self.ocm_base:
            got = f"{self.ocm_size} bytes from {self.ocm_base}"
            raise MlipCompileError(f"{got} of a tile's memory, expected some of its {OCM_BYTES}")
