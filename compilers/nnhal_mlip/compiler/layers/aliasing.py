"""Values that share their bytes: views of others, and the parts of concatenations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from nnhal_mlip.compiler.geometry.boxes import Extents, TensorBox, seen_as
from nnhal_mlip.compiler.layers.tile_layers import (
    LayerOperand,
    LayerValue,
    TensorJoin,
    TileLayer,
    TileNetwork,
)
from nnhal_mlip.program.program import TaskKind


class ValueAlias(NamedTuple):
    """Place of a value: in a root, the value that has bytes of its own."""

    root: str
    offset: Extents = (0, 0, 0, 0)
    """The offset of the value's first element in the root."""
    view: bool = False
    """True if the value is all bytes of the root, with other extents."""


@dataclass(frozen=True, slots=True)
class AliasedNetwork:
    """A network without joins: layers write the parts of concatenations where they belong."""

    network: TileNetwork
    aliases: Mapping[str, ValueAlias]
    """The alias of every value."""
    viewed: frozenset[str]
    """Roots that have views, so that boxes of them are kept as consecutive elements."""
    scales: Mapping[str, float]
    """The real value of 1 of every value; 1 in fp16."""

    def root_box(self, value: str, box: TensorBox) -> TensorBox:
        alias, values = self.aliases[value], self.network.values
        if alias.view:
            return seen_as(box, values[value].extents, values[alias.root].extents)
        return box.moved(alias.offset)


def alias_values(network: TileNetwork, scales: Mapping[str, float]) -> AliasedNetwork:
    """Decide which values share bytes, and add the copies for those that cannot.

    Args:
        network: With joins.
        scales: Of every value in int8, all equal in fp16. Only equals can share bytes in a concatenation.
    """
    values, known = dict(network.values), dict(scales)
    layers = list(network.layers)
    aliases = {name: ValueAlias(name) for name in values} | {
        view: ValueAlias(source, view=True) for view, source in network.views.items()
    }
    aliases |= {name: ValueAlias(part.source, part.offset) for name, part in network.slices.items()}
    fixed = set(network.inputs) | {name for name, value in values.items() if value.constant is not None}
    fixed |= set(network.views) | set(network.views.values()) | set(network.slices)
    for join in network.joins:
        counts = Counter(join.parts)
        for part, offset in zip(join.parts, _offsets(join, values), strict=True):
            writable = part not in fixed and counts[part] == 1 and scales[part] == scales[join.output]
            if writable:
                fixed.add(part)
            else:
                part, layer = _copy(join.kernel, part, f"{part}@{join.output}{offset}", values)
                layers.append(layer)
                known[part] = scales[join.output]
            aliases[part] = ValueAlias(join.output, offset)
    outputs: list[str] = []
    for output in network.outputs:
        root = aliases[output].root
        if root in network.inputs or values[root].constant is not None or output in network.slices:
            copied, layer = _copy(len(network.kernels) - 1, output, f"{output}@output{len(outputs)}", values)
            layers.append(layer)
            known[copied] = scales[output]
            aliases[copied] = ValueAlias(copied)
            output = copied
        outputs.append(output)
    layers.sort(key=lambda layer: layer.kernel)
    aliased = replace(network, values=values, layers=tuple(layers), outputs=tuple(outputs), joins=())
    chased = {name: _chased(name, aliases) for name in values}
    return AliasedNetwork(aliased, chased, frozenset(network.views.values()), known)


def _offsets(join: TensorJoin, values: Mapping[str, LayerValue]) -> list[Extents]:
    offsets, at = [], 0
    for part in join.parts:
        offset = [0, 0, 0, 0]
        offset[join.axis] = at
        offsets.append((offset[0], offset[1], offset[2], offset[3]))
        at += values[part].extents[join.axis]
    return offsets


def _copy(kernel: int, source: str, name: str, values: dict[str, LayerValue]) -> tuple[str, TileLayer]:
    values[name] = replace(values[source], name=name, constant=None)
    layer = TileLayer(
        kernel, TaskKind.COPY, (LayerOperand(source),), LayerOperand(name), extents=values[source].extents
    )
    return name, layer


def _chased(name: str, aliases: Mapping[str, ValueAlias]) -> ValueAlias:
    alias = aliases[name]
    while not alias.view and aliases[alias.root].root != alias.root:
        above = aliases[alias.root]
        a, b, c, d = alias.offset
        e, f, g, h = above.offset
        alias = ValueAlias(above.root, (a + e, b + f, c + g, d + h))
    return alias
