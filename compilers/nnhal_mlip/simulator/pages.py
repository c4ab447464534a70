"""Which pages of the on-chip memory a program touches."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nnhal_mlip.program.program import OCM_BYTES, MlipProgram, OcmView, TileTask
from nnhal_mlip.program.sizes import TYPE_BYTES, end_of, tiles_of

PAGE_BYTES = 16 * 1024
"""The driver's default."""


def touched_pages(program: MlipProgram, page_bytes: int = PAGE_BYTES) -> NDArray[np.bool_]:
    """Return whether each layer touches each page of each tile: [layers, tiles, pages]."""
    touched = np.zeros((len(program.layers), program.tiles, -(-OCM_BYTES // page_bytes)), np.bool_)

    def touch(layer: int, tile: int, start: int, end: int) -> None:
        touched[layer, tile, start // page_bytes : -(-end // page_bytes)] = True

    for transfer in program.transfers:
        for tile in tiles_of(transfer.tiles):
            touch(transfer.layer, tile, transfer.ocm_bytes.start, end_of(transfer.ocm_bytes))
    for stage in program.stages:
        for copy in stage.copies:
            touch(stage.layer, copy.source, copy.source_bytes.start, end_of(copy.source_bytes))
            for tile in tiles_of(copy.tiles):
                touch(stage.layer, tile, copy.target_bytes.start, end_of(copy.target_bytes))
        for task in stage.tasks:
            for start, end in _spans(task):
                touch(stage.layer, task.tile, start, end)
    return touched


def _spans(task: TileTask) -> list[tuple[int, int]]:
    """From and to which addresses a task reads or writes."""
    spans = [_span(view) for view in (*task.inputs, task.output)]
    if task.weights is not None:
        spans.append(_span(task.weights))
    return spans + [
        (address, address + 4 * task.output.shape[3]) for address in (task.biases, task.factors) if address >= 0
    ]


def _span(view: OcmView) -> tuple[int, int]:
    last = sum((extent - 1) * stride for extent, stride in zip(view.shape, view.strides, strict=True))
    return view.address, view.address + last + TYPE_BYTES[view.type]
