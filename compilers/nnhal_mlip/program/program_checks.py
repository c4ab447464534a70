"""Checks that a program can run: all it names exists, lies in its memory, and its queues do not wait for ever."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import prod

from nnhal_mlip.program.errors import ProgramError
from nnhal_mlip.program.program import (
    MAX_PORTS,
    MAX_TILES,
    OCM_BYTES,
    DdrRange,
    DdrTransfer,
    MlipProgram,
    ProgramPort,
    ProgramStage,
    Strided,
    TensorType,
)
from nnhal_mlip.program.sizes import TYPE_BYTES, bytes_of, end_of
from nnhal_mlip.program.task_checks import check_task

"""Inputs, and outputs (DPDK, cn10k_ml_model.h, since 2.3.0.1)."""
MAX_BATCH = 256
MAX_DDR_BYTES = 1 << 31
"""The most bytes of a range."""
MAX_PORT_RANK = 4
"""The highest rank of an input: the metadata have four extents."""

_LAYOUTS = ("NCHW", "NHWC", "NC", "")
_MAX_COUNT = (1 << 63) - 1
_MAX_SCALE = 1e37
"""It and its reciprocal are float32 in the metadata."""


def check_program(program: MlipProgram, weight_bytes: int) -> None:
    """Refuse a program that cannot run with so many bytes of weights.

    Raises:
        ProgramError: something in it is out of its range, or its queues wait for each other for ever.
    """
    _within("tiles of the program", program.tiles, 1, MAX_TILES)
    _within("batch of the program", program.batch, 1, MAX_BATCH)
    if program.type not in (TensorType.FP16, TensorType.INT8):
        raise ProgramError("the program's type", program.type.name, "FP16 or INT8")
    _within("ocm_scratch_floor", program.ocm_scratch_floor, 0, OCM_BYTES)
    _within("ocm_weights_bytes", program.ocm_weights_bytes, 0, program.ocm_scratch_floor)
    _within("bytes of weights", weight_bytes, 0, MAX_DDR_BYTES)
    _within("scratch_bytes", program.scratch_bytes, 0, MAX_DDR_BYTES)
    for index, layer in enumerate(program.layers):
        _within(f"tiles of layer {index} ({layer.name})", layer.tiles, 0, program.tiles)
        for origin in layer.origins:
            _within(f"origin of layer {index} ({layer.name})", origin, -len(program.inputs), len(program.layers) - 1)
        for what, count in (("macs", layer.macs), ("weight_bytes", layer.weight_bytes), ("stripes", layer.stripes)):
            _within(f"{what} of layer {index} ({layer.name})", count, 0, _MAX_COUNT)
    sizes = {
        DdrRange.WEIGHTS: weight_bytes,
        DdrRange.INPUTS: _ports("input", program.inputs, MAX_PORT_RANK),
        DdrRange.OUTPUTS: _ports("output", program.outputs, None),
        DdrRange.SCRATCH: program.scratch_bytes,
    }
    at_start = True
    for index, transfer in enumerate(program.transfers):
        if transfer.at_start and not at_start:
            raise ProgramError(f"transfer {index}", "at start", "one of a run, as the transfer before it")
        at_start = transfer.at_start
        _transfer(program, f"transfer {index}", transfer, sizes[transfer.ddr])
    for index, stage in enumerate(program.stages):
        _stage(program, f"stage {index}", stage)
    _deadlocks(program)


def _ports(what: str, ports: Sequence[ProgramPort], max_rank: int | None) -> int:
    """Check inputs or outputs, and return the size of their range of DDR."""
    _within(f"number of {what}s", len(ports), 1, MAX_PORTS)
    end = 0
    for index, port in enumerate(ports):
        place = f"{what} {index} ({port.name})"
        if max_rank is not None:
            _within(f"rank of {place}", len(port.shape), 0, max_rank)
        if any(extent < 1 for extent in port.shape):
            raise ProgramError(f"shape of {place}", port.shape, "extents of at least 1")
        if (count := prod(port.shape) * TYPE_BYTES[port.type]) != port.bytes:
            raise ProgramError(f"bytes of {place}", port.bytes, f"{count} of its shape and type")
        if port.layout not in _LAYOUTS:
            raise ProgramError(f"layout of {place}", repr(port.layout), f"one of {', '.join(map(repr, _LAYOUTS))}")
        if not 1 / _MAX_SCALE <= port.scale <= _MAX_SCALE:
            raise ProgramError(f"scale of {place}", port.scale, f"{1 / _MAX_SCALE} to {_MAX_SCALE}")
        _within(f"offset of {place}", port.offset, end, MAX_DDR_BYTES - port.bytes)
        end = port.offset + port.bytes
    return end


def _transfer(program: MlipProgram, place: str, transfer: DdrTransfer, ddr_size: int) -> None:
    _within(f"layer of {place}", transfer.layer, 0, len(program.layers) - 1)
    _within(f"after_stage of {place}", transfer.after_stage, 0, len(program.stages))
    _tiles(program, place, transfer.tiles)
    _pieces(f"DDR bytes of {place} ({transfer.ddr.name})", transfer.ddr_bytes, 0, ddr_size, written=transfer.store)
    if transfer.at_start:
        low, high = 0, program.ocm_weights_bytes
        if transfer.store or transfer.ddr is not DdrRange.WEIGHTS or transfer.after_stage:
            raise ProgramError(place, "at start", "a load of weights after 0 stages, if it is at start")
    else:
        low, high = 0 if transfer.store else program.ocm_scratch_floor, OCM_BYTES
    _pieces(f"OCM bytes of {place}", transfer.ocm_bytes, low, high, written=not transfer.store)
    _same_bytes(place, transfer.ddr_bytes, transfer.ocm_bytes)
    if transfer.store:
        if transfer.tiles & (transfer.tiles - 1):
            raise ProgramError(f"tiles of {place}", f"{transfer.tiles:#b}", "one tile, since it is a store")
        if transfer.ddr not in (DdrRange.OUTPUTS, DdrRange.SCRATCH):
            raise ProgramError(f"range of {place}", transfer.ddr.name, "OUTPUTS or SCRATCH, since it is a store")
    elif transfer.ddr is DdrRange.OUTPUTS:
        raise ProgramError(f"range of {place}", transfer.ddr.name, "WEIGHTS, INPUTS or SCRATCH, since it is a load")


def _stage(program: MlipProgram, place: str, stage: ProgramStage) -> None:
    _within(f"layer of {place}", stage.layer, 0, len(program.layers) - 1)
    _within(f"after_transfers of {place}", stage.after_transfers, 0, len(program.transfers))
    floor = program.ocm_scratch_floor
    for index, copy in enumerate(stage.copies):
        each = f"copy {index} of {place}"
        _within(f"source of {each}", copy.source, 0, program.tiles - 1)
        _tiles(program, each, copy.tiles)
        _pieces(f"source bytes of {each}", copy.source_bytes, 0, OCM_BYTES, written=False)
        _pieces(f"target bytes of {each}", copy.target_bytes, floor, OCM_BYTES, written=True)
        _same_bytes(each, copy.source_bytes, copy.target_bytes)
    for index, task in enumerate(stage.tasks):
        each = f"task {index} of {place} ({program.layers[stage.layer].name})"
        _within(f"tile of {each}", task.tile, 0, program.tiles - 1)
        check_task(each, task, program.type, floor)


def _deadlocks(program: MlipProgram) -> None:
    """A stage must not wait for a transfer that waits for it, be it by the stages before it."""
    wanted = [0, *accumulate((stage.after_transfers for stage in program.stages), max)]
    for index, transfer in enumerate(program.transfers):
        if wanted[transfer.after_stage] > index:
            raise ProgramError(
                f"transfer {index}",
                f"after {transfer.after_stage} stages",
                f"after fewer, since these wait for {wanted[transfer.after_stage]} transfers, and so for it",
            )


def _tiles(program: MlipProgram, place: str, mask: int) -> None:
    if not 0 < mask < 1 << program.tiles:
        raise ProgramError(f"tiles of {place}", f"{mask:#b}", f"at least one of {program.tiles} tiles")


def _pieces(what: str, pieces: Strided, low: int, high: int, *, written: bool) -> None:
    if pieces.pieces < 1 or pieces.length < 1 or pieces.stride < 0:
        raise ProgramError(what, tuple(pieces), "at least one piece of at least one byte")
    if written and pieces.pieces > 1 and pieces.stride < pieces.length:
        raise ProgramError(what, tuple(pieces), "pieces that do not overlap, since they are written")
    if pieces.start < low or end_of(pieces) > high:
        raise ProgramError(what, f"{pieces.start} to {end_of(pieces)}", f"within {low} to {high}")


def _same_bytes(place: str, source: Strided, target: Strided) -> None:
    if bytes_of(source) != bytes_of(target):
        raise ProgramError(f"bytes of {place}", bytes_of(target), f"{bytes_of(source)}, as many as it reads")


def _within(what: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ProgramError(what, value, f"{low} to {high}")
