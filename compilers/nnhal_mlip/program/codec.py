"""A program as code: the sections init, main and finish of a binary.

``init`` has what holds for all runs, and the transfers at start; ``main`` the transfers and stages of a run; ``finish``
says how many of each there are, and what a report says about the layers. Each is a record of ``words.py``.
"""

from __future__ import annotations

from typing import NamedTuple

from nnhal_mlip.program.errors import BinaryError, BinaryFault
from nnhal_mlip.program.program import (
    DdrRange,
    DdrTransfer,
    LayerRecord,
    LayerSplit,
    MlipProgram,
    ProgramPort,
    ProgramStage,
    Strided,
    TensorType,
    TileCopy,
)
from nnhal_mlip.program.task_codec import read_task, write_task
from nnhal_mlip.program.words import RecordReader, RecordWriter

CODE_VERSION = 1
"""The version of the sections' format. A reader takes no other."""

_INIT, _MAIN, _FINISH = b"NNPI", b"NNPM", b"NNPF"


class ProgramCode(NamedTuple):
    """The sections of a program."""

    init: bytes
    main: bytes
    finish: bytes


class CodeOffsets(NamedTuple):
    """Places of the sections of a binary, in bytes."""

    init: int
    main: int
    finish: int


def encode_program(program: MlipProgram, weight_bytes: int) -> ProgramCode:
    """Return a program's code. The program must have passed ``check_program``."""
    at_start = sum(transfer.at_start for transfer in program.transfers)
    init = RecordWriter()
    init.text(program.name)
    init.words(program.tiles, program.batch, program.type, program.pinned, weight_bytes)
    init.words(program.scratch_bytes, program.ocm_weights_bytes, program.ocm_scratch_floor)
    for ports in (program.inputs, program.outputs):
        init.words(len(ports))
        for port in ports:
            _write_port(init, port)
    _write_transfers(init, program.transfers[:at_start])
    main = RecordWriter()
    _write_transfers(main, program.transfers[at_start:])
    main.words(len(program.stages))
    for stage in program.stages:
        _write_stage(main, stage)
    finish = RecordWriter()
    finish.words(len(program.transfers), len(program.stages), len(program.layers))
    for layer in program.layers:
        _write_layer(finish, layer)
    return ProgramCode(
        init.finish(_INIT, CODE_VERSION), main.finish(_MAIN, CODE_VERSION), finish.finish(_FINISH, CODE_VERSION)
    )


def decode_program(code: ProgramCode, offsets: CodeOffsets) -> tuple[MlipProgram, int]:
    """Return the program that code stands for, and the bytes of its weights. ``check_program`` says if it can run.

    Raises:
        BinaryError: the sections are damaged, or contradict one another.
    """
    init = RecordReader(code.init, _INIT, CODE_VERSION, "the init section", offsets.init)
    main = RecordReader(code.main, _MAIN, CODE_VERSION, "the main section", offsets.main)
    finish = RecordReader(code.finish, _FINISH, CODE_VERSION, "the finish section", offsets.finish)
    name = init.text("the program's name")
    tiles, batch = init.words(2)
    element_type = init.choice("the program's type", TensorType)
    pinned = init.flag("the flag of pinned weights")
    weight_bytes, scratch_bytes, ocm_weights_bytes, ocm_scratch_floor = init.words(4)
    inputs = tuple([_read_port(init) for _ in range(init.count("the number of inputs"))])
    outputs = tuple([_read_port(init) for _ in range(init.count("the number of outputs"))])
    transfers = _read_transfers(init, at_start=True) + _read_transfers(main, at_start=False)
    stages = tuple([_read_stage(main) for _ in range(main.count("the number of stages"))])
    counts = tuple(finish.words(2))
    if counts != (len(transfers), len(stages)):
        expected = f"{(len(transfers), len(stages))}"
        raise BinaryError(
            BinaryFault.CODE, "the finish section's transfers and stages", counts, expected, offsets.finish
        )
    layers = tuple([_read_layer(finish) for _ in range(finish.count("the number of layers"))])
    for reader in (init, main, finish):
        reader.finish()
    program = MlipProgram(
        name=name,
        tiles=tiles,
        batch=batch,
        type=element_type,
        pinned=pinned,
        layers=layers,
        transfers=transfers,
        stages=stages,
        inputs=inputs,
        outputs=outputs,
        scratch_bytes=scratch_bytes,
        ocm_weights_bytes=ocm_weights_bytes,
        ocm_scratch_floor=ocm_scratch_floor,
    )
    return program, weight_bytes


def _write_port(writer: RecordWriter, port: ProgramPort) -> None:
    writer.text(port.name)
    writer.words(len(port.shape), *port.shape)
    writer.text(port.layout)
    writer.words(port.type, port.offset, port.bytes)
    writer.reals(port.scale)


def _read_port(reader: RecordReader) -> ProgramPort:
    name = reader.text("a port's name")
    shape = tuple(reader.words(reader.count("a port's rank")))
    layout = reader.text("a port's layout")
    element_type = reader.choice("a port's type", TensorType)
    offset, count = reader.words(2)
    return ProgramPort(name, shape, layout, element_type, reader.reals(1)[0], offset, count)


def _write_transfers(writer: RecordWriter, transfers: tuple[DdrTransfer, ...]) -> None:
    writer.words(len(transfers))
    for each in transfers:
        writer.words(each.layer, each.after_stage, each.store, each.tiles, each.ddr, *each.ddr_bytes, *each.ocm_bytes)


def _read_transfers(reader: RecordReader, *, at_start: bool) -> tuple[DdrTransfer, ...]:
    return tuple([_read_transfer(reader, at_start) for _ in range(reader.count("the number of transfers"))])


def _read_transfer(reader: RecordReader, at_start: bool) -> DdrTransfer:
    layer, after_stage = reader.words(2)
    store = reader.flag("a transfer's direction")
    tiles = reader.word()
    ddr = reader.choice("a transfer's range", DdrRange)
    pieces = reader.words(8)
    return DdrTransfer(layer, after_stage, store, at_start, tiles, ddr, Strided(*pieces[:4]), Strided(*pieces[4:]))


def _write_stage(writer: RecordWriter, stage: ProgramStage) -> None:
    writer.words(stage.layer, stage.after_transfers, len(stage.copies))
    for copy in stage.copies:
        writer.words(copy.source, *copy.source_bytes, copy.tiles, *copy.target_bytes)
    writer.words(len(stage.tasks))
    for task in stage.tasks:
        write_task(writer, task)


def _read_stage(reader: RecordReader) -> ProgramStage:
    layer, after_transfers = reader.words(2)
    copies = tuple([_read_copy(reader) for _ in range(reader.count("the number of copies"))])
    tasks = tuple([read_task(reader) for _ in range(reader.count("the number of tasks"))])
    return ProgramStage(layer, after_transfers, copies, tasks)


def _read_copy(reader: RecordReader) -> TileCopy:
    row = reader.words(10)
    return TileCopy(row[0], Strided(*row[1:5]), row[5], Strided(*row[6:]))


def _write_layer(writer: RecordWriter, layer: LayerRecord) -> None:
    writer.text(layer.name)
    writer.text(layer.kind)
    writer.words(len(layer.user_names))
    for name in layer.user_names:
        writer.text(name)
    writer.words(layer.macs, layer.weight_bytes, layer.split, layer.tiles, layer.stripes, layer.spills)
    writer.words(len(layer.origins))
    writer.signed(*layer.origins)


def _read_layer(reader: RecordReader) -> LayerRecord:
    name = reader.text("a layer's name")
    kind = reader.text("a layer's kind")
    user_names = tuple([reader.text("a layer's user name") for _ in range(reader.count("the number of user names"))])
    macs, weight_bytes = reader.words(2)
    split = reader.choice("a layer's split", LayerSplit)
    tiles, stripes = reader.words(2)
    spills = reader.flag("a layer's flag of spilling")
    origins = tuple(reader.signed(reader.count("a layer's number of origins")))
    return LayerRecord(name, kind, user_names, macs, weight_bytes, split, tiles, stripes, spills, origins)
