"""A network of layers in the making."""

from __future__ import annotations

import numpy as np

from nnhal.arrays import Array
from nnhal_mlip.compiler.errors import MlipCompileError
from nnhal_mlip.compiler.geometry.boxes import Extents
from nnhal_mlip.compiler.layers.tile_layers import (
    KernelNote,
    LayerOperand,
    LayerSlice,
    LayerValue,
    TensorJoin,
    TileLayer,
    TileNetwork,
)
from nnhal_mlip.flow.files.nodes_file import KernelNode
from nnhal_mlip.flow.files.subgraph_files import SubgraphFiles
from nnhal_mlip.flow.graph.operators import TABLES
from nnhal_mlip.program.program import UNCLIPPED, TaskKind, TaskRange
from nnhal_mlip.program.tables import TaskTable

MAX_RANK = 4
IN_ORDER: Extents = (0, 1, 2, 3)
_POSITIONS = {0: (), 1: (3,), 2: (1, 3), 3: (0, 1, 3), 4: (0, 1, 2, 3)}
"""Where the axes of a tensor are among its extents, by rank."""


class NetworkDraft:
    """Collects values, views and layers, kernel by kernel."""

    def __init__(self, files: SubgraphFiles) -> None:
        self.files = files
        self.values: dict[str, LayerValue] = {}
        self.views: dict[str, str] = {}
        self.slices: dict[str, LayerSlice] = {}
        self.layers: list[TileLayer] = []
        self.joins: list[TensorJoin] = []
        self.notes: list[KernelNote] = []

    @property
    def kernel(self) -> int:
        """The number of the kernel that is being read."""
        return len(self.notes) - 1

    def add_value(self, value: LayerValue) -> str:
        """Add a value; return its name."""
        self.values[value.name] = value
        return value.name

    def inner(self, name: str, extents: Extents, scale: float | None = None) -> str:
        """Add a value that the files do not have."""
        return self.add_value(LayerValue(self.fresh(name), extents, extents, scale=scale))

    def fresh(self, name: str) -> str:
        """Return a name that no value has."""
        count, found = 0, name
        while found in self.values:
            count += 1
            found = f"{name}.{count}"
        return found

    def seen_as(self, name: str, extents: Extents) -> str:
        """Return a value with the same bytes and other extents: the value itself if it has these."""
        value = self.values[name]
        if value.extents == extents:
            return name
        view = self.inner(f"{name}:{'x'.join(map(str, extents))}", extents, value.scale)
        self.set_view(view, name)
        return view

    def set_view(self, view: str, source: str) -> None:
        """Make a value, which no layer writes, the bytes of another."""
        source = self.whole(source)
        self.views[view] = self.views.get(source, source)

    def whole(self, name: str) -> str:
        """Return a value that is no part of another one: a copy of one that is."""
        if name not in self.slices:
            return name
        value = self.values[name]
        copied = self.inner(f"{name}:whole", value.extents, value.scale)
        self.add_copy(name, copied)
        return copied

    def add_copy(
        self,
        source: str,
        target: str,
        axes: Extents = IN_ORDER,
        target_axes: Extents = IN_ORDER,
        clip: TaskRange = UNCLIPPED,
    ) -> None:
        """Add a layer that copies a value, with its axes in another order; axes of length 1 are repeated.

        ``axes`` and ``target_axes`` are the axes of both that are the layer's batch, height, width and channels.
        """
        a, b, c, d = (self.values[target].extents[axis] for axis in target_axes)
        inputs, output = (LayerOperand(source, axes),), LayerOperand(target, target_axes)
        self.layers.append(TileLayer(self.kernel, TaskKind.COPY, inputs, output, (a, b, c, d), range=clip))

    def set_slice(self, part: str, source: str, axis: int, begin: int) -> None:
        """Make a value, which no layer writes, a part of another one, from an element of an axis of its extents on."""
        if source in self.views:
            value = self.values[source]
            copied = self.inner(f"{source}:whole", value.extents, value.scale)
            self.add_copy(source, copied)
            source = copied
        offset = tuple(begin if each == axis else 0 for each in range(4))
        self.slices[part] = LayerSlice(source, (offset[0], offset[1], offset[2], offset[3]))

    def network(self, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> TileNetwork:
        nodes = self.files.nodes
        return TileNetwork(
            nodes.symbol,
            nodes.batch_size,
            tuple(self.notes),
            self.values,
            tuple(self.layers),
            inputs,
            outputs,
            self.views,
            tuple(self.joins),
            self.slices,
        )


def extents_of(shape: tuple[int, ...], place: str) -> Extents:
    """Return the extents of a tensor: its shape with ones before the last axis, and before all.

    Raises:
        MlipCompileError: its rank is over 4, or an extent is unknown.
    """
    if len(shape) > MAX_RANK:
        raise MlipCompileError(f"{place}: shape {list(shape)} has rank {len(shape)}, expected at most {MAX_RANK}")
    if not all(shape):
        raise MlipCompileError(f"{place}: shape {list(shape)} has no element or an unknown extent, expected known ones")
    result = [1, 1, 1, 1]
    for position, extent in zip(_POSITIONS[len(shape)], shape, strict=True):
        result[position] = extent
    return result[0], result[1], result[2], result[3]


def position_of(axis: int, rank: int) -> int:
    """Return where an axis of a tensor is among its extents; negative axes count from the end."""
    return _POSITIONS[rank][axis]


def ranked(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Return a shape with ones in front added or taken away, up to a rank."""
    while len(shape) > rank and shape[0] == 1:
        shape = shape[1:]
    return (1,) * (rank - len(shape)) + shape


def activation(node: KernelNode) -> TaskRange:
    kind = node.attrs.activation_type
    match kind:
        case None | "":
            return TaskRange()
        case _ if kind in TABLES:
            alpha, beta = (node.attrs.nnhal and node.attrs.nnhal.table) or (0.0, 0.0)
            return TaskRange(table=TaskTable(TABLES[kind], alpha, beta))
        case "relu":
            return TaskRange(low=0.0)
        case "clip" if node.attrs.nnhal is not None and node.attrs.nnhal.clip is not None:
            low, high = node.attrs.nnhal.clip
            return TaskRange(float("-inf") if low is None else low, float("inf") if high is None else high)
    expected = f"relu, clip with its range, or one of {', '.join(sorted(TABLES))}"
    raise MlipCompileError(f"{node.user_name}: activation_type is {kind!r}, expected {expected}")


def real_constant(draft: NetworkDraft, name: str) -> tuple[Array, Array | None]:
    """Return a constant in real numbers as the file shapes it, and its scales if it has some.

    Floats have the file's own width, other numbers are float64. Scales are one, or as many as the constant has elements
    along the axis that they belong to.
    """
    entry = draft.files.constants.entries[name]
    values = entry.array()
    if entry.nnhal is None or not entry.nnhal.scales:
        return values if values.dtype.kind == "f" else values.astype(np.float64), None
    values = values.astype(np.float64)
    scales = np.asarray(entry.nnhal.scales, np.float64)
    if scales.size == 1:
        return values * scales[0], scales
    shape = [1] * values.ndim
    shape[entry.nnhal.axis or 0] = scales.size
    return values * scales.reshape(shape), scales


def finite(array: Array, place: str, what: str) -> Array:
    """Return an array of finite numbers; raise MlipCompileError for others."""
    if not np.isfinite(array).all():
        raise MlipCompileError(f"{place}: {what} are not all finite numbers")
    return array
