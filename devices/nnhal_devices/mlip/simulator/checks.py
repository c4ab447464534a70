"""What is checked of a program before anything of it is executed: every bound, every shape, every order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from nnhal_devices.mlip.program.program import (
    MAX_TILES,
    OCM_BYTES,
    DdrRange,
    DdrTransfer,
    MlipProgram,
    ProgramPort,
    ProgramStage,
)
from nnhal_devices.mlip.simulator.elements import ELEMENT_DTYPES
from nnhal_devices.mlip.simulator.errors import ProgramFaultError
from nnhal_devices.mlip.simulator.memory import ddr_bytes, pieces, tiles_of
from nnhal_devices.mlip.simulator.order import steps_of
from nnhal_devices.mlip.simulator.spans import check_pieces, check_within, lowest_of
from nnhal_devices.mlip.simulator.task_checks import check_task


def check_program(program: MlipProgram, weights_bytes: int) -> None:
    """Check that a program can be executed without reading or writing what is not there.

    Raises:
        ProgramFaultError: it cannot; the message names the transfer or the stage, and the layer.
    """
    with _at(program.name):
        if not 1 <= program.tiles <= MAX_TILES:
            raise ProgramFaultError(f"{program.tiles} tiles, expected 1 to {MAX_TILES}")
        if not 0 <= program.ocm_weights_bytes <= program.ocm_scratch_floor <= OCM_BYTES:
            raise ProgramFaultError(
                f"pinned weights of {program.ocm_weights_bytes} bytes and a scratch floor of"
                f" {program.ocm_scratch_floor}, expected the first to be no larger, and both at most {OCM_BYTES}"
            )
        for port in (*program.inputs, *program.outputs):
            _check_port(port)
        sizes = {
            DdrRange.WEIGHTS: weights_bytes,
            DdrRange.INPUTS: ddr_bytes(program, DdrRange.INPUTS),
            DdrRange.OUTPUTS: ddr_bytes(program, DdrRange.OUTPUTS),
            DdrRange.SCRATCH: program.scratch_bytes,
        }
        for number, transfer in enumerate(program.transfers):
            with _at(f"transfer {number}{_of_layer(program, transfer.layer)}"):
                _check_transfer(program, transfer, sizes[transfer.ddr])
        for number, stage in enumerate(program.stages):
            with _at(f"stage {number}{_of_layer(program, stage.layer)}"):
                _check_stage(program, stage)
        _check_outputs(program, sizes[DdrRange.OUTPUTS])
    for _ in steps_of(program):
        pass


@contextmanager
def _at(place: str) -> Iterator[None]:
    try:
        yield
    except ProgramFaultError as error:
        raise ProgramFaultError(f"{place}: {error}") from error


def _of_layer(program: MlipProgram, layer: int) -> str:
    if not 0 <= layer < len(program.layers):
        raise ProgramFaultError(f"layer {layer}, the program has {len(program.layers)}")
    record = program.layers[layer]
    return f" of {record.name} ({', '.join(record.user_names) or record.kind})"


def _check_port(port: ProgramPort) -> None:
    size = int(np.prod(port.shape, dtype=object)) * ELEMENT_DTYPES[port.type].itemsize
    if port.offset < 0 or min(port.shape, default=1) < 1 or port.bytes != size:
        raise ProgramFaultError(
            f"{port.name} of shape {port.shape} in {port.bytes} bytes at offset {port.offset}, expected {size} bytes"
        )
    if not (np.isfinite(port.scale) and port.scale > 0):
        raise ProgramFaultError(f"{port.name} has the scale {port.scale}, expected a positive number")


def _check_transfer(program: MlipProgram, transfer: DdrTransfer, ddr_size: int) -> None:
    tiles = _check_tiles(program, transfer.tiles)
    if transfer.store and (tiles != 1 or transfer.ddr in (DdrRange.WEIGHTS, DdrRange.INPUTS) or transfer.at_start):
        raise ProgramFaultError(
            f"a store of {tiles} tiles to {transfer.ddr.name}{' at the start' if transfer.at_start else ''},"
            " expected one tile, and outputs or scratch, in a run"
        )
    if transfer.at_start and transfer.ddr != DdrRange.WEIGHTS:
        raise ProgramFaultError(f"a load of {transfer.ddr.name} at the start, expected weights")
    if not transfer.at_start and not 0 <= transfer.after_stage <= len(program.stages):
        raise ProgramFaultError(f"after {transfer.after_stage} stages, the program has {len(program.stages)}")
    check_pieces(transfer.ddr_bytes, ddr_size, transfer.ddr.name, written=transfer.store)
    check_pieces(transfer.ocm_bytes, OCM_BYTES, "OCM", written=not transfer.store)
    sizes = [each.pieces * each.length for each in (transfer.ddr_bytes, transfer.ocm_bytes)]
    if sizes[0] != sizes[1]:
        raise ProgramFaultError(f"{sizes[0]} bytes of {transfer.ddr.name} and {sizes[1]} of OCM, expected as many")
    if transfer.at_start:
        check_pieces(transfer.ocm_bytes, program.ocm_weights_bytes, "the pinned weights", written=True)
    elif not transfer.store:
        check_within(transfer.ocm_bytes.start, program.ocm_scratch_floor, "a load")


def _check_stage(program: MlipProgram, stage: ProgramStage) -> None:
    if not 0 <= stage.after_transfers <= len(program.transfers):
        raise ProgramFaultError(f"after {stage.after_transfers} transfers, the program has {len(program.transfers)}")
    for copy in stage.copies:
        if not 0 <= copy.source < program.tiles:
            raise ProgramFaultError(f"a copy from tile {copy.source}, the program has {program.tiles}")
        _check_tiles(program, copy.tiles)
        check_pieces(copy.source_bytes, OCM_BYTES, "OCM", written=False)
        check_pieces(copy.target_bytes, OCM_BYTES, "OCM", written=True)
        check_within(copy.target_bytes.start, program.ocm_scratch_floor, "a copy")
        sizes = [each.pieces * each.length for each in (copy.source_bytes, copy.target_bytes)]
        if sizes[0] != sizes[1]:
            raise ProgramFaultError(f"a copy of {sizes[0]} bytes to {sizes[1]}, expected as many")
    for task in stage.tasks:
        if not 0 <= task.tile < program.tiles:
            raise ProgramFaultError(f"a task of tile {task.tile}, the program has {program.tiles}")
        with _at(f"{task.kind.name} of tile {task.tile}"):
            check_task(task)
            check_within(lowest_of(task.output), program.ocm_scratch_floor, "the output")


def _check_tiles(program: MlipProgram, mask: int) -> int:
    """Return how many tiles a mask has."""
    if not 0 < mask < 1 << program.tiles:
        raise ProgramFaultError(f"the tiles {mask:#b}, the program has {program.tiles}")
    return len(list(tiles_of(mask)))


def _check_outputs(program: MlipProgram, size: int) -> None:
    """Each byte of the outputs must be stored."""
    stored = np.zeros(size, np.bool_)
    for transfer in program.transfers:
        if transfer.store and transfer.ddr == DdrRange.OUTPUTS:
            pieces(stored, transfer.ddr_bytes)[...] = True
    for port in program.outputs:
        missing = port.bytes - int(np.count_nonzero(stored[port.offset : port.offset + port.bytes]))
        if missing:
            raise ProgramFaultError(f"{missing} of the {port.bytes} bytes of the output {port.name} are never stored")
