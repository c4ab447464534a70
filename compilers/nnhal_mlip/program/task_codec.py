"""Tasks as words of a record."""

from __future__ import annotations

from nnhal_mlip.program.program import (
    ONE_BY_ONE,
    UNCLIPPED,
    OcmView,
    TaskKind,
    TaskRange,
    TaskWindow,
    TensorType,
    TileTask,
)
from nnhal_mlip.program.tables import NO_TABLE, TableKind, TaskTable
from nnhal_mlip.program.words import RecordReader, RecordWriter

_WEIGHTS, _WINDOW, _RANGE, _SCALE, _TABLE = 1, 2, 4, 8, 16
"""Flags: what follows, instead of the default."""


def write_task(writer: RecordWriter, task: TileTask) -> None:
    flags = _WEIGHTS * (task.weights is not None) + _WINDOW * (task.window != ONE_BY_ONE)
    low, high, table = task.range
    flags += _RANGE * ((low, high) != UNCLIPPED[:2]) + _SCALE * (task.output_scale != 1.0)
    flags += _TABLE * (table != NO_TABLE)
    writer.words(task.tile, task.kind, flags, len(task.inputs), len(task.input_factors))
    for view in (*task.inputs, task.output, *([task.weights] if task.weights else [])):
        writer.words(view.address, *view.shape, *view.strides, view.type)
    writer.signed(task.biases, task.factors)
    writer.reals(*task.input_factors)
    if flags & _WINDOW:
        writer.words(*task.window.kernel, *task.window.strides, *task.window.dilation, task.window.count_padding)
        writer.signed(*task.window.padding)
    if flags & _RANGE:
        writer.reals(low, high)
    if flags & _SCALE:
        writer.reals(task.output_scale)
    if flags & _TABLE:
        writer.words(table.kind)
        writer.reals(table.alpha, table.beta)


def read_task(reader: RecordReader) -> TileTask:
    """Return a task. Raises BinaryError if there is none."""
    tile = reader.word()
    kind = reader.choice("a task's kind", TaskKind)
    flags = reader.below("a task's flags", 2 * _TABLE)
    inputs, factors = reader.count("a task's number of inputs"), reader.count("a task's number of factors")
    views = [_read_view(reader) for _ in range(inputs + 1 + (flags & _WEIGHTS))]
    biases, factor_address = reader.signed(2)
    input_factors = tuple(reader.reals(factors))
    window, clip, scale = ONE_BY_ONE, UNCLIPPED, 1.0
    if flags & _WINDOW:
        window = _read_window(reader)
    if flags & _RANGE:
        low, high = reader.reals(2)
        clip = TaskRange(low, high)
    if flags & _SCALE:
        (scale,) = reader.reals(1)
    if flags & _TABLE:
        clip = clip._replace(table=TaskTable(reader.choice("a task's table", TableKind), *reader.reals(2)))
    weights = views[inputs + 1] if flags & _WEIGHTS else None
    return TileTask(
        tile,
        kind,
        tuple(views[:inputs]),
        views[inputs],
        weights,
        biases,
        factor_address,
        input_factors,
        window,
        clip,
        scale,
    )


def _read_view(reader: RecordReader) -> OcmView:
    address, s0, s1, s2, s3, t0, t1, t2, t3 = reader.words(9)
    return OcmView(address, (s0, s1, s2, s3), (t0, t1, t2, t3), reader.choice("a view's type", TensorType))


def _read_window(reader: RecordReader) -> TaskWindow:
    k0, k1, s0, s1, d0, d1 = reader.words(6)
    count_padding = reader.flag("a window's flag of counted padding")
    top, left, bottom, right = reader.signed(4)
    return TaskWindow((k0, k1), (s0, s1), (d0, d1), (top, left, bottom, right), count_padding)
