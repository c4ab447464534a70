"""A program of the accelerator: what its DMA engine and its tiles do, and in which order.

Two queues run beside each other. The DMA engine does transfers in order, each when the stage that it names is done. The
tiles do stages in order, each when the transfers that it names are done. In a stage each tile does its own tasks in
order; a barrier of all tiles ends it. Every value lies in the on-chip memory (OCM) of one tile or several, at the byte
addresses that the program says, or in one of four ranges of DDR.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from nnhal_mlip.program.tables import NO_TABLE, TaskTable

MAX_TILES = 8
TILE_COUNTS = (1, 2, 4, 8)
"""How many tiles a program can take."""
MAX_PORTS = 32
"""The inputs, and the outputs, that the driver's metadata have room for (DPDK, cn10k_ml_model.h)."""
OCM_BYTES = 1 << 20
"""The on-chip memory of each tile (DPDK, cn10k_ml_ocm.h)."""


class TensorType(IntEnum):
    """The element types of the driver's metadata (DPDK, cn10k_ml_model.h)."""

    INT8 = 1
    UINT8 = 2
    INT16 = 3
    UINT16 = 4
    INT32 = 5
    UINT32 = 6
    FP16 = 7
    FP32 = 8
    INT64 = 9
    UINT64 = 10


class DdrRange(IntEnum):
    WEIGHTS = 0
    INPUTS = 1
    OUTPUTS = 2
    SCRATCH = 3


class Strided(NamedTuple):
    """Bytes in pieces of equal length. ``pieces`` of ``length`` bytes begin ``stride`` bytes apart."""

    start: int
    pieces: int
    length: int
    stride: int


@dataclass(frozen=True, slots=True)
class DdrTransfer:
    """The DMA engine moves bytes between DDR and OCM."""

    layer: int
    """The layer that it is for, an index of ``MlipProgram.layers``."""
    after_stage: int
    """It begins when that many stages are done."""
    store: bool
    """From OCM to DDR; otherwise from DDR to OCM."""
    at_start: bool
    """Done once when the model is loaded, not in each run: pinned weights. Only loads."""
    tiles: int
    """A bit for each tile. A load may have several, which all receive the same bytes; a store has one."""
    ddr: DdrRange
    ddr_bytes: Strided
    """Within the range."""
    ocm_bytes: Strided
    """The same in OCM: as many bytes in total."""


@dataclass(frozen=True, slots=True)
class TileCopy:
    """Tiles receive bytes from the OCM of another tile, or their own: halos, and inputs that several tiles need."""

    source: int
    """A tile."""
    source_bytes: Strided
    tiles: int
    """A bit for each tile that receives."""
    target_bytes: Strided


class OcmView(NamedTuple):
    """A tensor of rank 4 in the OCM of a tile. A stride of 0 repeats an axis."""

    address: int
    shape: tuple[int, int, int, int]
    """For an image batch, height, width, channels; a task may read it in any order."""
    strides: tuple[int, int, int, int]
    """Bytes."""
    type: TensorType


class TaskKind(IntEnum):
    """Kind of a task: its computation and the unit of the tile."""

    CONVOLUTION = 1
    """On the array; a dense layer is one of 1 x 1."""
    DEPTHWISE = 2
    """On the irregular unit, as all below."""
    MAX_POOL = 3
    AVERAGE_POOL = 4
    """Over the elements that are not padding, unless ``count_padding``."""
    SUM = 5
    """The sum of its inputs, which have the output's shape."""
    COPY = 6
    """A copy of its input, perhaps in another type or scale, in the output's shape: concatenation, transposition."""
    PRODUCT = 7
    """The product of its inputs, which have the output's shape."""
    SOFTMAX = 8
    """exp(x) of each row of channels, divided by the sum of these."""
    NORMALIZATION = 9
    """x less the mean of its row of channels, times the table's RSQRT of the row's variance."""
    MATMUL = 10
    """On the array: each row of the first input by each row of the second, which stands where weights do."""


ROW_KINDS = (TaskKind.SOFTMAX, TaskKind.NORMALIZATION)
"""A task that computes each row of channels from the row of its input at the same place."""
ELEMENT_KINDS = (TaskKind.SUM, TaskKind.COPY, TaskKind.PRODUCT, *ROW_KINDS)
"""A task that computes elements of its output from those of its inputs at the same place, without a window."""
JOINING_KINDS = (TaskKind.SUM, TaskKind.PRODUCT, TaskKind.MATMUL)
"""What may have several inputs."""


class TaskWindow(NamedTuple):
    """Window that a task slides over its input view. Padding lies around the view, in elements."""

    kernel: tuple[int, int] = (1, 1)
    strides: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Top, left, bottom, right; negative if the view has rows or columns that the window does not reach."""
    count_padding: bool = False


class TaskRange(NamedTuple):
    """An activation: a table's function, and then the range that it clips to, as real numbers.

    Infinite ends clip nothing.
    """

    low: float = float("-inf")
    high: float = float("inf")
    table: TaskTable = NO_TABLE


ONE_BY_ONE = TaskWindow()
UNCLIPPED = TaskRange()


@dataclass(frozen=True, slots=True)
class TileTask:
    """One tile computes a part of a layer's output."""

    tile: int
    kind: TaskKind
    inputs: tuple[OcmView, ...]
    output: OcmView
    weights: OcmView | None = None
    """CONVOLUTION: output channels, height, width, input channels (of a group: there is one). DEPTHWISE: 1, height,
    width, channels.
    """
    biases: int = -1
    """The address of a bias for each output channel, float32 in fp16 and int32 in int8; -1 if there is none."""
    factors: int = -1
    """In int8, the address of a float32 for each output channel, by which the sum is multiplied; -1 otherwise."""
    input_factors: tuple[float, ...] = ()
    """In int8, for kinds without weights: by which each input is multiplied to be in the output's scale."""
    window: TaskWindow = ONE_BY_ONE
    range: TaskRange = UNCLIPPED
    output_scale: float = 1.0
    """In int8: the real value of 1, so that the range can be applied."""


@dataclass(frozen=True, slots=True)
class ProgramStage:
    """Work of the tiles between two barriers. Copies come before tasks."""

    layer: int
    after_transfers: int
    """It begins when that many transfers are done."""
    copies: tuple[TileCopy, ...]
    tasks: tuple[TileTask, ...]


class LayerSplit(IntEnum):
    """Division of a layer over tiles."""

    ROWS = 0
    CHANNELS = 1


@dataclass(frozen=True, slots=True)
class LayerRecord:
    """Facts of a layer in a program, for reports."""

    name: str
    """The kernel's in the nodes file."""
    kind: str
    """``Conv2D``, as in the nodes file."""
    user_names: tuple[str, ...]
    macs: int
    weight_bytes: int
    split: LayerSplit
    tiles: int
    """How many tiles compute it."""
    stripes: int
    """In how many stages."""
    spills: bool
    """True if its output passes through DDR."""
    origins: tuple[int, ...] = ()
    """From where the bytes are that its tasks read as inputs, constants apart: the layers that computed them, by their
    indices, and -1, -2 and so on for the inputs of the program. Empty if the compiler does not say.
    """


@dataclass(frozen=True, slots=True)
class ProgramPort:
    """An input or output of a program."""

    name: str
    shape: tuple[int, ...]
    layout: str
    """NCHW, NHWC or NC; empty for other ranks."""
    type: TensorType
    scale: float
    """In int8 the real value of 1; 1 otherwise."""
    offset: int
    """Bytes from the start of its DDR range."""
    bytes: int


@dataclass(frozen=True, slots=True)
class MlipProgram:
    name: str
    """The symbol of the subgraph."""
    tiles: int
    batch: int
    type: TensorType
    """FP16 or INT8: the arithmetic."""
    pinned: bool
    layers: tuple[LayerRecord, ...]
    transfers: tuple[DdrTransfer, ...]
    stages: tuple[ProgramStage, ...]
    inputs: tuple[ProgramPort, ...]
    outputs: tuple[ProgramPort, ...]
    scratch_bytes: int
    """Bytes of DDR."""
    ocm_weights_bytes: int
    """Bytes of each tile, from address 0: pinned weights. Kept from run to run."""
    ocm_scratch_floor: int
    """The lowest address of each tile that a run overwrites; it overwrites from there to the end of OCM."""
