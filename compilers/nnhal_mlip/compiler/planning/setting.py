"""Setting that a plan is made for: a network, a number of tiles, their memory; and what follows from these alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from nnhal.memory.arena import round_up
from nnhal_mlip.compiler.geometry.boxes import Extents, TensorBox
from nnhal_mlip.compiler.layers.aliasing import AliasedNetwork
from nnhal_mlip.compiler.layers.needs import needed
from nnhal_mlip.compiler.layers.tile_layers import LayerOperand, TileLayer
from nnhal_mlip.compiler.planning.choices import LayerChoice, shares
from nnhal_mlip.program.program import LayerSplit, TensorType
from nnhal_mlip.program.sizes import TYPE_BYTES
from nnhal_mlip.timing.profile import TimingProfile

ALIGNMENT = 128
"""The alignment of addresses and offsets, in bytes."""

TileBoxes = Mapping[int, TensorBox]
"""A part of a root for each tile."""


class LayerAccess(NamedTuple):
    """Elements that each tile writes and reads for a layer, in the axes of the roots."""

    written: TileBoxes
    read: tuple[TileBoxes, ...]
    """For each operand."""


@dataclass(frozen=True, slots=True)
class RootUse:
    """Writers and readers of a root."""

    writers: tuple[int, ...]
    """Layers, in order; none for inputs and constants."""
    readers: tuple[int, ...]
    """Layers, in order."""
    leaves: bool
    """True if it or a part of it is an output of the network."""


@dataclass(frozen=True)
class PlanSetting:
    """Setting that a plan is made for."""

    aliased: AliasedNetwork
    type: TensorType
    tiles: int
    base: int
    """The first address of each tile's memory that may be used."""
    capacity: int
    """Bytes of each tile's memory from ``base``."""
    page: int
    pinned: bool
    """True if weights stay in the tiles' memory from run to run."""
    profile: TimingProfile
    uses: Mapping[str, RootUse] = field(init=False)
    costs: dict[tuple[object, ...], int] = field(init=False, default_factory=dict, compare=False)
    """What choosing has computed already, for all plans that are tried."""
    _accesses: dict[tuple[int, LayerSplit, int], LayerAccess] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "uses", _uses(self.aliased))

    @property
    def item(self) -> int:
        """The bytes of an element."""
        return TYPE_BYTES[self.type]

    @property
    def layers(self) -> tuple[TileLayer, ...]:
        return self.aliased.network.layers

    def root(self, value: str) -> str:
        return self.aliased.aliases[value].root

    def extents(self, value: str) -> Extents:
        return self.aliased.network.values[value].extents

    def is_constant(self, root: str) -> bool:
        """Return whether a root is a constant operand of a sum."""
        return self.aliased.network.values[root].constant is not None

    def seen(self, operand: LayerOperand) -> Extents:
        """Return the extents of an operand in its layer's order of axes."""
        extents = self.extents(operand.value)
        a, b, c, d = operand.axes
        return extents[a], extents[b], extents[c], extents[d]

    def read_box(self, layer: TileLayer, index: int, box: TensorBox) -> TensorBox:
        """Return which part of a root a layer reads of an input for a part of its output in the layer's axes."""
        operand = layer.inputs[index]
        part = needed(layer, box, self.seen(operand), index).permuted(operand.axes)
        return self.aliased.root_box(operand.value, part)

    def written_box(self, layer: TileLayer, box: TensorBox) -> TensorBox:
        """Return the part of a root that is a part of a layer's output in the layer's order of axes."""
        return self.aliased.root_box(layer.output.value, box.permuted(layer.output.axes))

    def access(self, layer: int, choice: LayerChoice) -> LayerAccess:
        key = (layer, choice.split, choice.tiles)
        found = self._accesses.get(key)
        if found is None:
            of = self.layers[layer]
            parts = shares(of, choice.split, choice.tiles)
            found = self._accesses[key] = LayerAccess(
                {tile: self.written_box(of, box) for tile, box in parts.items()},
                tuple(
                    {t: self.read_box(of, index, box) for t, box in parts.items()} for index in range(len(of.inputs))
                ),
            )
        return found

    def constants_bytes(self, layer: TileLayer, channels: int) -> int:
        """Return the bytes of a convolution's constants for some of its output channels; 0 for other layers."""
        if layer.weights is None:
            return 0
        return constants_layout(layer, channels, self.type).bytes


class ConstantsLayout(NamedTuple):
    """Places of constants from the start of a block: weights, then a bias and a factor for each channel."""

    biases: int
    factors: int
    bytes: int


def constants_layout(layer: TileLayer, channels: int, element_type: TensorType) -> ConstantsLayout:
    """Return where the constants of some output channels of a convolution lie.

    Only int8 has factors. In fp16 a block of kernels of very few products is padded to the size that it has in int8, so
    that int8 never has more to load.
    """
    assert layer.weights is not None
    kernel = channels * layer.reduction
    biases = round_up(kernel * TYPE_BYTES[element_type], 4)
    factors = biases + (4 * channels if layer.weights.biases is not None else 0)
    with_factors = factors - biases + round_up(kernel, 4) + 4 * channels
    return ConstantsLayout(biases, factors, max(factors, with_factors))


def _uses(aliased: AliasedNetwork) -> dict[str, RootUse]:
    writers: dict[str, list[int]] = {}
    readers: dict[str, list[int]] = {}
    for number, layer in enumerate(aliased.network.layers):
        writers.setdefault(aliased.aliases[layer.output.value].root, []).append(number)
        for root in dict.fromkeys(aliased.aliases[operand.value].root for operand in layer.inputs):
            readers.setdefault(root, []).append(number)
    leaving = {aliased.aliases[output].root for output in aliased.network.outputs}
    roots = dict.fromkeys(alias.root for alias in aliased.aliases.values())
    return {
        root: RootUse(tuple(writers.get(root, ())), tuple(readers.get(root, ())), root in leaving) for root in roots
    }
