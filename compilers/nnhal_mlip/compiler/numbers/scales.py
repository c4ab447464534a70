"""The scale of each value in int8: the real value of 1. All are symmetric: the zero point is 0."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nnhal_mlip.compiler.errors import MlipCompileError
from nnhal_mlip.compiler.layers.tile_layers import LayerValue, TileLayer, TileNetwork
from nnhal_mlip.program.program import TaskKind
from nnhal_mlip.program.tables import NO_TABLE

LARGEST = 127
"""The int8 that the largest real value becomes."""

Ranges = Mapping[str, tuple[float, float]]
"""The least and the largest real value of a value, by its name, or by that of the kernel that computes it."""


def unit_scales(network: TileNetwork) -> dict[str, float]:
    """Return 1 for every value: what fp16 has."""
    return dict.fromkeys(network.values, 1.0)


def int8_scales(network: TileNetwork, ranges: Ranges) -> dict[str, float]:
    """Return the scale of every value: the one in the files, or the one that its range asks for.

    Views have the scale of what they see. What is only moved, and has neither, has the scale of what it was. What the
    files leave open for a part of a concatenation is the scale of the whole, so that it can be computed in place.

    Raises:
        MlipCompileError: there is neither for a value, or a view has another scale in the files.
    """
    seen_by: dict[str, list[str]] = {}
    for view, source in network.views.items():
        seen_by.setdefault(source, []).append(view)
    writers = {layer.output.value: layer for layer in network.layers}
    joins = {join.output: join for join in network.joins}
    found: dict[str, float] = {}

    def scale(name: str) -> float:
        if name in found:
            return found[name]
        if name in network.views:
            result = scale(network.views[name])
            given = network.values[name].scale
            if given is not None and given != result:
                raise MlipCompileError(
                    f"{name}: has scale {given}, expected {result}, that of the data it is a view of"
                )
        else:
            names = (name, *seen_by.get(name, ()))
            own = _own(network, [network.values[each] for each in names], writers.get(name), ranges)
            result = inherited(name) if own is None else own
        found[name] = result
        return result

    def inherited(name: str) -> float:
        if name in joins:
            return max(scale(part) for part in joins[name].parts)
        layer = writers.get(name)
        if layer is not None and _moves(layer):
            return scale(layer.inputs[0].value)
        for reader in network.layers:
            # What only a further layer of the same kernel moves has the range of that kernel's result.
            read = reader.inputs[0].value
            if (
                layer is not None
                and reader.kernel == layer.kernel
                and _moves(reader)
                and network.views.get(read, read) == name
            ):
                return scale(reader.output.value)
        place = network.kernels[layer.kernel].place if layer is not None else name
        raise MlipCompileError(f"{place}: its result {name} has no range, expected one from a calibration")

    scales = {name: scale(name) for name in network.values}
    return scales | _joined(network, scales, (writers.keys() | joins.keys()) - seen_by.keys())


def scale_of(low: float, high: float) -> float:
    """Return the scale with which int8 holds a range."""
    return max(abs(low), abs(high)) / LARGEST or 1.0


def _joined(network: TileNetwork, scales: Mapping[str, float], computed: set[str]) -> dict[str, float]:
    """Return the scales of those parts of concatenations that are free to have the scale of the whole."""
    found: dict[str, float] = {}
    for join in reversed(network.joins):
        whole = found.get(join.output, scales[join.output])
        for part in join.parts:
            if part in computed and network.values[part].scale is None and scales[part] <= whole:
                found.setdefault(part, whole)
    return found


def _own(network: TileNetwork, values: list[LayerValue], writer: TileLayer | None, ranges: Ranges) -> float | None:
    """Return the scale that the files or a range give a value, under any of the names that it has."""
    for value in values:
        if value.scale is not None:
            return value.scale
    constant = values[0].constant
    if constant is not None:
        return scale_of(float(np.min(constant)), float(np.max(constant)))
    names = [value.name for value in values]
    if writer is not None and _is_last(network, writer):
        names.append(network.kernels[writer.kernel].name)
    for name in names:
        if name in ranges:
            low, high = ranges[name]
            return scale_of(low, high)
    return None


def _is_last(network: TileNetwork, layer: TileLayer) -> bool:
    return [other for other in network.layers if other.kernel == layer.kernel][-1] is layer


def _moves(layer: TileLayer) -> bool:
    """Return whether a layer's results are some of its input's values."""
    moved = layer.task in (TaskKind.COPY, TaskKind.MAX_POOL) and layer.range.table == NO_TABLE
    return moved or layer.is_pad
