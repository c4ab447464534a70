"""The layers that tiles compute, and the values between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

from nnhal.arrays import Array
from nnhal_mlip.compiler.geometry.boxes import Extents
from nnhal_mlip.program.program import ONE_BY_ONE, ROW_KINDS, UNCLIPPED, TaskKind, TaskRange, TaskWindow
from nnhal_mlip.timing.cycles import ROW_PASSES


@dataclass(frozen=True, slots=True)
class LayerValue:
    """A tensor that layers read or write."""

    name: str
    shape: tuple[int, ...]
    """As in the files."""
    extents: Extents
    """Its shape with ones before the last axes: [B, C] is [1, B, 1, C]."""
    layout: str = ""
    """NCHW, NHWC or NC; empty for others."""
    scale: float | None = None
    """In int8, if the files give one: the real value of 1."""
    constant: Array | None = field(default=None, compare=False)
    """Real numbers, of ``extents``."""

    @property
    def elements(self) -> int:
        return prod(self.extents)


class LayerOperand(NamedTuple):
    """A layer's view of a value that it reads or writes. Layers think in batch, height, width and channels."""

    value: str
    axes: Extents = (0, 1, 2, 3)
    """The axis of the value that is the layer's batch, height, width, channels."""


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """The constants of a convolution, in real numbers."""

    kernel: Array = field(compare=False)
    """[output channels, height, width, input channels of a group]"""
    biases: Array | None = field(compare=False)
    """For each output channel."""
    scales: Array | None = field(default=None, compare=False)
    """The scales of each output channel, if the files give them; the kernel is a multiple of them."""


@dataclass(frozen=True, slots=True)
class TileLayer:
    """Work of the tiles between one barrier and another."""

    kernel: int
    """The kernel that it belongs to, an index of ``TileNetwork.kernels``."""
    task: TaskKind
    inputs: tuple[LayerOperand, ...]
    output: LayerOperand
    extents: Extents
    """The extents of the output, in the layer's order of axes."""
    window: TaskWindow = ONE_BY_ONE
    range: TaskRange = UNCLIPPED
    weights: LayerWeights | None = None
    groups: int = 1
    """The groups of a CONVOLUTION."""
    is_pad: bool = False
    """True if it only puts zeros around its input."""
    inner: int = 1
    """The products of an element of a MATMUL."""

    @property
    def reduction(self) -> int:
        """Return how many products or elements make one element of the output."""
        if self.task is TaskKind.MATMUL:
            return self.inner
        if self.weights is None:
            return ROW_PASSES if self.task in ROW_KINDS else prod(self.window.kernel)
        return prod(self.weights.kernel.shape[1:])

    @property
    def macs(self) -> int:
        multiplies = self.weights is not None or self.task is TaskKind.MATMUL
        return prod(self.extents) * self.reduction if multiplies and not self.is_pad else 0


class LayerSlice(NamedTuple):
    """A value that is a part of another one, which is no view."""

    source: str
    offset: Extents
    """Of its first element in the source."""


class TensorJoin(NamedTuple):
    """A concatenation."""

    kernel: int
    output: str
    parts: tuple[str, ...]
    axis: int
    """An axis, by its place in the extents."""


class KernelNote(NamedTuple):
    """Remark of reports about a kernel of the nodes file."""

    name: str
    kind: str
    user_names: tuple[str, ...]

    @property
    def place(self) -> str:
        """The kernel in messages: the user's names, or the file's if there are none."""
        return ", ".join(self.user_names) or self.name


@dataclass(frozen=True, slots=True)
class TileNetwork:
    """A subgraph. Layers are in an order in which they can be computed."""

    name: str
    batch: int
    kernels: tuple[KernelNote, ...]
    values: Mapping[str, LayerValue]
    layers: tuple[TileLayer, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    views: Mapping[str, str] = field(default_factory=dict)
    """Values that are the bytes of another value with other extents, by name, and that value, which is no view."""
    joins: tuple[TensorJoin, ...] = ()
    slices: Mapping[str, LayerSlice] = field(default_factory=dict)
    """By the names of the parts."""
