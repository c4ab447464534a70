"""A binary as text: its metadata, its layers, and what the DMA engine and the tiles do, in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from nnhal_mlip.program.binary import MlipBinary
from nnhal_mlip.program.program import (
    DdrTransfer,
    OcmView,
    ProgramStage,
    Strided,
    TileCopy,
    TileTask,
)
from nnhal_mlip.program.sizes import bytes_of, tiles_of
from nnhal_mlip.program.tables import NO_TABLE


def listing(binary: MlipBinary) -> Iterator[str]:
    yield "metadata"
    yield from _fields(binary.metadata, "  ")
    program = binary.program
    pinned = ", weights pinned" if program.pinned else ""
    yield f"program {program.name}: {program.type.name.lower()} on {program.tiles} tiles{pinned}"
    for what, ports in (("input", program.inputs), ("output", program.outputs)):
        for port in ports:
            shape = "x".join(map(str, port.shape))
            layout = f" {port.layout}" if port.layout else ""
            scale = f", scale {port.scale:g}" if port.scale != 1 else ""
            yield f"  {what} {port.name}: {port.type.name.lower()} {shape}{layout} at {port.offset:#x}{scale}"
    for number, layer in enumerate(program.layers):
        yield f"  layer {number} {layer.name} {layer.kind}: {' + '.join(layer.user_names) or '(added)'}"
    yield "DMA engine"
    for number, transfer in enumerate(program.transfers):
        yield f"  {number}: {_transfer(transfer)}"
    yield "tiles"
    for number, stage in enumerate(program.stages):
        yield f"  stage {number} of layer {stage.layer}, after {stage.after_transfers} transfers"
        yield from _stage(stage)


def _fields(value: object, indent: str) -> Iterator[str]:
    for name, each in _members(value):
        if _members(each):
            yield f"{indent}{name}"
            yield from _fields(each, indent + "  ")
        elif isinstance(each, tuple) and each and all(_members(one) for one in each):
            for number, one in enumerate(each):
                yield f"{indent}{name} {number}"
                yield from _fields(one, indent + "  ")
        else:
            yield f"{indent}{name}: {_text(name, each) if isinstance(each, bytes) else each}"


def _text(name: str, content: bytes) -> str:
    return content.hex() if name == "uuid" else content.decode("utf-8", "backslashreplace")


def _members(value: object) -> list[tuple[str, object]]:
    if is_dataclass(value) and not isinstance(value, type):
        return [(each.name, getattr(value, each.name)) for each in fields(value)]
    return [(name, getattr(value, name)) for name in getattr(value, "_fields", ())]


def _transfer(transfer: DdrTransfer) -> str:
    tiles = ",".join(map(str, tiles_of(transfer.tiles)))
    ddr = f"{transfer.ddr.name.lower()} {_pieces(transfer.ddr_bytes)}"
    ocm = f"tiles {tiles} {_pieces(transfer.ocm_bytes)}"
    way = f"store {ocm} to {ddr}" if transfer.store else f"load {ddr} to {ocm}"
    when = "when loaded" if transfer.at_start else f"after {transfer.after_stage} stages"
    return f"{way}, {bytes_of(transfer.ddr_bytes)} bytes, layer {transfer.layer}, {when}"


def _stage(stage: ProgramStage) -> Iterator[str]:
    for copy in stage.copies:
        yield f"    {_copy(copy)}"
    for task in stage.tasks:
        yield f"    {_task(task)}"


def _copy(copy: TileCopy) -> str:
    tiles = ",".join(map(str, tiles_of(copy.tiles)))
    return f"copy tile {copy.source} {_pieces(copy.source_bytes)} to tiles {tiles} {_pieces(copy.target_bytes)}"


def _task(task: TileTask) -> str:
    parts = [f"tile {task.tile} {task.kind.name.lower()} {_view(task.output)} of {', '.join(map(_view, task.inputs))}"]
    if task.weights is not None:
        parts.append(f"weights {_view(task.weights)}")
    if task.biases >= 0:
        parts.append(f"biases {task.biases:#x}")
    if task.factors >= 0:
        parts.append(f"factors {task.factors:#x}")
    window = task.window
    if window.kernel != (1, 1) or window.strides != (1, 1) or any(window.padding):
        parts.append(
            f"kernel {window.kernel[0]}x{window.kernel[1]}, strides {window.strides[0]}x{window.strides[1]}, "
            f"dilation {window.dilation[0]}x{window.dilation[1]}, padding {list(window.padding)}"
        )
    if task.range.low != float("-inf") or task.range.high != float("inf"):
        parts.append(f"range {task.range.low:g} to {task.range.high:g}")
    if task.range.table != NO_TABLE:
        parts.append(f"table {task.range.table.kind.name}")
    return "; ".join(parts)


def _pieces(pieces: Strided) -> str:
    if pieces.pieces == 1:
        return f"{pieces.start:#x}"
    return f"{pieces.start:#x} ({pieces.pieces} of {pieces.length}, {pieces.stride} apart)"


def _view(view: OcmView) -> str:
    return f"{view.type.name.lower()}[{'x'.join(map(str, view.shape))}]@{view.address:#x}"
