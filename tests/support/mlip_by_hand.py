"""Programs of the MLIP that are made by hand, one tensor behind the other in the OCM of every tile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from nnhal.arrays import Array, Bytes
from nnhal_mlip.program.binary import write_binary
from nnhal_mlip.program.program import (
    DdrRange,
    DdrTransfer,
    LayerRecord,
    LayerSplit,
    MlipProgram,
    OcmView,
    ProgramPort,
    ProgramStage,
    Strided,
    TaskKind,
    TaskWindow,
    TensorType,
    TileCopy,
    TileTask,
)

TYPES: dict[str, TensorType] = {
    "float16": TensorType.FP16,
    "int8": TensorType.INT8,
    "int32": TensorType.INT32,
    "float32": TensorType.FP32,
}


def contiguous(address: int, shape: Sequence[int], type_: TensorType, size: int) -> OcmView:
    """A view of a tensor of rank 4 that lies row by row."""
    extents = (shape[0], shape[1], shape[2], shape[3])
    strides = [size * prod(extents[axis + 1 :]) for axis in range(4)]
    return OcmView(address, extents, (strides[0], strides[1], strides[2], strides[3]), type_)


def whole(start: int, size: int) -> Strided:
    """One piece."""
    return Strided(start, 1, size, size)


class HandMade:
    """A program in the making. Each task is a stage and a layer of its own, unless the caller gives a stage."""

    def __init__(self, dtype: type[np.generic], tiles: int = 1, start: int = 0) -> None:
        self.dtype, self.tiles, self.top = np.dtype(dtype), tiles, start
        self.weights = b""
        self.transfers: list[DdrTransfer] = []
        self.stages: list[ProgramStage] = []
        self.layers: list[LayerRecord] = []
        self.inputs: list[ProgramPort] = []
        self.outputs: list[ProgramPort] = []
        self.mask = (1 << tiles) - 1

    def room(self, size: int) -> int:
        """An address of so many bytes."""
        address = self.top
        self.top += -(-size // 64) * 64
        return address

    def tensor(self, shape: Sequence[int], dtype: type[np.generic] | None = None) -> OcmView:
        """Room for a tensor of rank 4."""
        kind = np.dtype(dtype) if dtype else self.dtype
        address = self.room(prod(shape) * kind.itemsize)
        return contiguous(address, shape, TYPES[kind.name], kind.itemsize)

    def constant(self, values: Array, layer: int = 0) -> int:
        address, start = self.room(values.nbytes), len(self.weights)
        self.weights += values.tobytes()
        self.load(DdrRange.WEIGHTS, start, values.nbytes, address, layer)
        return address

    def filters(self, values: Array, layer: int = 0) -> OcmView:
        """Load weights of rank 4."""
        return contiguous(self.constant(values, layer), values.shape, TYPES[values.dtype.name], values.itemsize)

    def input(self, shape: Sequence[int], scale: float = 1.0, layer: int = 0) -> OcmView:
        view, size = self.tensor(shape), prod(shape) * self.dtype.itemsize
        start = sum(port.bytes for port in self.inputs)
        name = f"in{len(self.inputs)}"
        self.inputs.append(ProgramPort(name, tuple(shape), "NHWC", TYPES[self.dtype.name], scale, start, size))
        self.load(DdrRange.INPUTS, start, size, view.address, layer)
        return view

    def load(self, ddr: DdrRange, start: int, size: int, address: int, layer: int = 0) -> None:
        """Load bytes into all tiles."""
        spans = whole(start, size), whole(address, size)
        self.transfers.append(DdrTransfer(layer, len(self.stages), False, False, self.mask, ddr, *spans))

    def store(self, view: OcmView, tile: int = 0, scale: float = 1.0, dtype: type[np.generic] | None = None) -> None:
        kind = np.dtype(dtype) if dtype else self.dtype
        size, start = prod(view.shape) * kind.itemsize, sum(port.bytes for port in self.outputs)
        name = f"out{len(self.outputs)}"
        self.outputs.append(ProgramPort(name, view.shape, "NHWC", view.type, scale, start, size))
        spans = whole(start, size), whole(view.address, size)
        stages, layer = len(self.stages), max(len(self.layers) - 1, 0)
        self.transfers.append(DdrTransfer(layer, stages, True, False, 1 << tile, DdrRange.OUTPUTS, *spans))

    def stage(self, *tasks: TileTask, copies: tuple[TileCopy, ...] = (), layer: int | None = None) -> None:
        """Run tasks at once when all transfers so far are done."""
        if layer is None:
            layer, macs = len(self.layers), sum(_macs(task) for task in tasks)
            self.layers.append(
                LayerRecord(
                    f"layer_{layer}", "Conv2D", (f"conv{layer}",), macs, 0, LayerSplit.ROWS, self.tiles, 1, False
                )
            )
        self.stages.append(ProgramStage(layer, len(self.transfers), copies, tasks))

    def program(self) -> MlipProgram:
        return MlipProgram(
            name="tvmgen_mrvl_main_0",
            tiles=self.tiles,
            batch=1,
            type=TYPES[self.dtype.name],
            pinned=False,
            layers=tuple(self.layers),
            transfers=tuple(self.transfers),
            stages=tuple(self.stages),
            inputs=tuple(self.inputs),
            outputs=tuple(self.outputs),
            scratch_bytes=0,
            ocm_weights_bytes=0,
            ocm_scratch_floor=0,
        )

    def binary(self) -> bytes:
        return write_binary(self.program(), self.weights)

    def weights_bytes(self) -> Bytes:
        return np.frombuffer(self.weights, np.uint8)


def one_task(kind: TaskKind, *inputs: Array, output: Sequence[int], task: TileTask, **constants: Array) -> HandMade:
    """A program of one task on one tile. ``task`` has its numbers; constants are weights, biases and factors."""
    made = HandMade(inputs[0].dtype.type)
    views = tuple(made.input(values.shape) for values in inputs)
    weights = made.filters(constants["weights"]) if "weights" in constants else None
    biases = made.constant(constants["biases"]) if "biases" in constants else -1
    factors = made.constant(constants["factors"]) if "factors" in constants else -1
    result = made.tensor(output)
    made.stage(replace(task, kind=kind, inputs=views, output=result, weights=weights, biases=biases, factors=factors))
    made.store(result)
    return made


def halved_convolution(image: Array, filters: Array, tiles: int = 2) -> HandMade:
    """A 3 x 3 convolution, of which each of two tiles computes half of the rows and gets the row beyond from the other.

    ``image`` is [1, 8, width, channels]. A tile of more than two has nothing to do.
    """
    made = HandMade(image.dtype.type, tiles=tiles)
    row = image[0, 0].nbytes
    made.input(image.shape)
    made.transfers.clear()
    half = made.tensor((1, 5, *image.shape[2:]))
    for tile in range(2):
        spans = whole(tile * 4 * row, 4 * row), whole(half.address + tile * row, 4 * row)
        made.transfers.append(DdrTransfer(0, 0, False, False, 1 << tile, DdrRange.INPUTS, *spans))
    weights, result = made.filters(filters), made.tensor((1, 4, image.shape[2], len(filters)))
    made.stage(
        *(
            TileTask(tile, TaskKind.CONVOLUTION, (half,), result, weights, window=TaskWindow((3, 3), padding=padding))
            for tile, padding in enumerate(((1, 1, 0, 1), (0, 1, 1, 1)))
        ),
        copies=(
            TileCopy(1, Strided(half.address + row, 2, row // 2, row // 2), 0b01, whole(half.address + 4 * row, row)),
            TileCopy(0, whole(half.address + 3 * row, row), 0b10, whole(half.address, row)),
        ),
    )
    made.store(result)
    made.store(result, tile=1)
    return made


def _macs(task: TileTask) -> int:
    if task.weights is None:
        return 0
    products = task.weights.shape[1:] if task.kind == TaskKind.CONVOLUTION else task.weights.shape[1:3]
    return prod(task.output.shape) * prod(products)


ANY = contiguous(0, (1, 1, 1, 1), TensorType.FP16, 2)
NUMBERS = TileTask(0, TaskKind.COPY, (), ANY)
"""The numbers of a task that has none."""
