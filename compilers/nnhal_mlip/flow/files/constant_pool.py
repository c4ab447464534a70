"""Collects the constants of a subgraph while its kernels are described."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnhal.arrays import Array
from nnhal.types.layout import describe
from nnhal_mlip.flow.files.constants_file import ConstantEntry, ConstantsFile, constant_entry, file_shape
from nnhal_mlip.flow.files.errors import FlowFilesError
from nnhal_mlip.flow.files.extension import ConstantExtension
from nnhal_mlip.flow.files.kernel_attributes import ConstantObject
from nnhal_mlip.flow.files.scales import scales_of
from nnhal_mlip.flow.graph.flow_graph import FlowGraph


class ConstantPool:
    """The constants so far. One that several kernels read in the same shape is kept once, under its first name."""

    def __init__(self, graph: FlowGraph) -> None:
        self._graph = graph
        self._names: dict[tuple[str, tuple[int, ...]], str] = {}
        self._entries: dict[str, ConstantEntry] = {}

    @property
    def file(self) -> ConstantsFile:
        """The constants file."""
        return ConstantsFile(dict(self._entries))

    def add(self, place: str, value: str, shape: Sequence[int], name: str) -> ConstantObject:
        """Keep a constant of the graph, broadcast to a shape; return the object that stands for it.

        ``name`` is what it is called if it is new. Raises FlowFilesError, which begins with ``place``, if the value is
        no constant, has another shape, or a type that files do not have.
        """
        if value not in self._graph.constants:
            raise FlowFilesError(f"{place}: got operand '{value}', which is computed, expected a constant")
        array = self._graph.constants[value]
        wanted = file_shape(shape)
        key = value, wanted
        if key not in self._names:
            extension = ConstantExtension(value=value, **scales_of(place, self._graph.values[value], len(wanted)))
            try:
                entry = constant_entry(np.broadcast_to(_of_rank(array, len(wanted)), wanted), extension)
            except ValueError as error:
                got = f"constant '{value}' of {array.dtype} with shape {describe(array.shape)}"
                raise FlowFilesError(f"{place}: got {got}, expected shape {describe(wanted)}: {error}") from error
            self._names[key] = name
            self._entries[name] = entry
        name = self._names[key]
        entry = self._entries[name]
        return ConstantObject(name=name, shape=entry.shape, dtype=entry.dtype, min=entry.min, max=entry.max)


def _of_rank(array: Array, rank: int) -> Array:
    """Drop leading axes of length 1 until an array has at most a rank."""
    while array.ndim > rank and array.shape[0] == 1:
        array = array[0]
    return array
