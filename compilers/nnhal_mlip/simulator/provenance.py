"""Check that every byte that a program reads holds what it should, by who wrote it last: no values are needed.

The origin of a byte is an input, the constants of a layer or the output of a layer; it moves along with the byte. The
program is walked in the two orders that the queues allow at the extremes. A read is wrong if

- a byte was never written,
- a constant is not one that was loaded for the layer, or an input is the constant of another layer,
- an input is not from where the layer's record says,
- it mixes what a layer computed with what has overwritten that very output, or
- it sees other steps in the one order than in the other, or what another copy of its stage writes.

If a record does not say from where inputs are, no rule finds an output that another layer's has replaced as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from zlib import crc32

import numpy as np

from nnhal.arrays import Array
from nnhal_mlip.program.program import OCM_BYTES, DdrRange, DdrTransfer, MlipProgram, TileTask
from nnhal_mlip.program.sizes import tiles_of
from nnhal_mlip.simulator.byte_tags import NOBODY, ByteTags, reached, unknown_bytes
from nnhal_mlip.simulator.errors import StaleBytesError
from nnhal_mlip.simulator.memory import ddr_bytes
from nnhal_mlip.simulator.order import steps_of


def check_provenance(program: MlipProgram) -> None:
    """Check what all tasks of a program read, and what it stores. Its bounds must have been checked.

    Raises:
        StaleBytesError: bytes do not hold what the program expects; the message names the layer, the tile, the bytes.
    """
    early, late = (dict(_ProgramWalk(program, late).reads()) for late in (False, True))
    for place, digest in early.items():
        if late[place] != digest:
            raise StaleBytesError(f"what {place} reads", "written before or after it", "the one or the other")


class _ProgramWalk:
    """One walk through a program."""

    def __init__(self, program: MlipProgram, late: bool) -> None:
        self._program, self._late = program, late
        self._ocm = [unknown_bytes(OCM_BYTES) for _ in range(program.tiles)]
        self._ddr = {
            DdrRange.INPUTS: unknown_bytes(ddr_bytes(program, DdrRange.INPUTS)),
            DdrRange.OUTPUTS: unknown_bytes(ddr_bytes(program, DdrRange.OUTPUTS)),
            DdrRange.SCRATCH: unknown_bytes(program.scratch_bytes),
        }
        self._names = ["nothing"]
        for port in program.inputs:
            self._ddr[DdrRange.INPUTS].origins[port.offset : port.offset + port.bytes] = len(self._names)
            self._names.append(f"the input {port.name}")
        self._constants = len(self._names)
        self._names += [f"the constants of {layer.name}" for layer in program.layers]
        self._outputs = len(self._names)
        self._names += [f"the output of {layer.name}" for layer in program.layers]
        self._allowed = [self._inputs_of(layer) for layer in range(len(program.layers))]

    def reads(self) -> Iterator[tuple[str, int]]:
        """Yield each place that reads OCM, and a digest of what wrote the bytes. Raises StaleBytesError."""
        for number, transfer in enumerate(self._program.transfers):
            if transfer.at_start:
                self._load(transfer, number)
        for is_stage, number in steps_of(self._program, self._late):
            if is_stage:
                yield from self._stage(number)
            elif self._program.transfers[number].store:
                yield self._store(self._program.transfers[number], number)
            else:
                self._load(self._program.transfers[number], number)

    def _inputs_of(self, layer: int) -> Array:
        """For each origin whether inputs of a layer may be of it: its constants, what its record says, or any value."""
        allowed, given = np.zeros(len(self._names), np.bool_), self._program.layers[layer].origins
        allowed[self._constants + layer] = True
        if given:
            allowed[[self._outputs + each if each >= 0 else -each for each in (*given, layer)]] = True
        else:
            allowed[1 : self._constants] = allowed[self._outputs :] = True
        return allowed

    def _load(self, transfer: DdrTransfer, number: int) -> None:
        if transfer.ddr == DdrRange.WEIGHTS:
            origins, overwritten = np.array(self._constants + transfer.layer), np.array(NOBODY)
        else:
            origins, overwritten, _ = self._ddr[transfer.ddr].taken(transfer.ddr_bytes)
        for tile in tiles_of(transfer.tiles):
            self._ocm[tile].taken(transfer.ocm_bytes).write(origins, overwritten, 1 + number)

    def _store(self, transfer: DdrTransfer, number: int) -> tuple[str, int]:
        (tile,) = tiles_of(transfer.tiles)
        place = f"transfer {number} of {self._layer(transfer.layer)}, which stores from tile {tile},"
        tags = self._ocm[tile].taken(transfer.ocm_bytes)
        if transfer.ddr == DdrRange.OUTPUTS:
            self._check(tags, place)
        self._ddr[transfer.ddr].taken(transfer.ddr_bytes).write(tags.origins, tags.overwritten, 1 + number)
        return place, tags.digest()

    def _stage(self, number: int) -> Iterator[tuple[str, int]]:
        stage, writer = self._program.stages[number], 1 + len(self._program.transfers) + number
        name = f"stage {number} of {self._layer(stage.layer)}"
        for index, copy in enumerate(stage.copies):
            place = f"copy {index} of {name} from tile {copy.source}"
            source = ByteTags(*(tags.copy() for tags in self._ocm[copy.source].taken(copy.source_bytes)))
            if (source.writers == writer).any():
                raise StaleBytesError(f"what {place} reads", "written by another copy of the stage", "older")
            for tile in tiles_of(copy.tiles):
                self._ocm[tile].taken(copy.target_bytes).write(source.origins, source.overwritten, writer)
            yield place, source.digest()
        for index, task in enumerate(stage.tasks):
            place = f"task {index} of {name} on tile {task.tile}"
            yield place, self._task(task, stage.layer, place)
            output = self._ocm[task.tile].seen(task.output)
            output.write(np.array(self._outputs + stage.layer), np.array(NOBODY), writer)

    def _task(self, task: TileTask, layer: int, place: str) -> int:
        """Check what a task reads, and return a digest of its writers."""
        ocm, own, digests = self._ocm[task.tile], self._constants + layer, []
        for view in task.inputs:
            tags = ocm.seen(reached(view, task))
            if not tags.origins.size:
                continue
            self._check(tags, place, self._allowed[layer] if self._program.layers[layer].origins else None)
            names = " or ".join(self._names[origin] for origin in np.flatnonzero(self._allowed[layer]))
            self._check_own(tags, ~self._allowed[layer][tags.origins], place, f"an input: {names}")
            digests.append(tags.digest())
        for what, tags in _constants_of(task, ocm):
            self._check_own(tags, tags.origins != own, place, f"{what}: {self._names[own]}")
            digests.append(tags.digest())
        return crc32(np.array(digests, np.uint32).tobytes())

    def _check_own(self, tags: ByteTags, foreign: Array, place: str, expected: str) -> None:
        if foreign.any():
            raise _stale(place, self._names[int(tags.origins[foreign][0])], expected, foreign)

    def _check(self, tags: ByteTags, place: str, known: Array | None = None) -> None:
        """Check that all bytes were written, and that none of an origin that is read was overwritten.

        What is of a ``known`` origin may lie where another was: the parts of a concatenation, for one.
        """
        read = np.zeros(len(self._names), np.bool_)
        read[tags.origins] = True
        if read[NOBODY]:
            raise _stale(place, "nothing", "something that was written", tags.origins == NOBODY)
        lost = read[tags.overwritten] if known is None else read[tags.overwritten] & ~known[tags.origins]
        if lost.any():
            got, expected = (self._names[int(each[lost][0])] for each in (tags.origins, tags.overwritten))
            raise _stale(place, got, expected, lost)

    def _layer(self, layer: int) -> str:
        record = self._program.layers[layer]
        return f"{record.name} ({', '.join(record.user_names) or record.kind})"


def _constants_of(task: TileTask, ocm: ByteTags) -> Iterator[tuple[str, ByteTags]]:
    if task.weights is not None:
        yield "weights", ocm.seen(task.weights)
    for what, address in (("biases", task.biases), ("factors", task.factors)):
        if address >= 0:
            yield what, ByteTags(*(tags[address : address + 4 * task.output.shape[3]] for tags in ocm))


def _stale(place: str, got: str, expected: str, which: Array) -> StaleBytesError:
    return StaleBytesError(f"what {place} reads", f"{got} in {int(np.count_nonzero(which))} bytes", expected)
