"""Device memory for operands of open dimensions, which takes its dimensions from what it holds."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from nnhal.errors import HalError
from nnhal.fence import create_fence
from nnhal.types import DataLocation, Request, RequestArgument
from nnhal.types.layout import Dimensions
from nnhal.v1 import request_pb2
from nnhal_conformance.channels import Launch
from nnhal_conformance.device import Prepared, Subject
from nnhal_conformance.device_buffers import WHOLE, DeviceBuffer, allocate
from nnhal_conformance.forms import detect_request, detecting, joined, prepare_form, prepare_open, prepare_twice
from nnhal_conformance.rule import FAILURE, INVALID, refused, require, rule
from nnhal_conformance.small_models import SHAPE, SmallModel, SmallRequest
from nnhal_conformance.ways import ALL_RUNS, LAUNCHES, RUNS, LaunchWay, RunWay, refused_run

GROUP = "open-buffers"
_PAGE = "client.md#where-it-lies"
_ROWS, _COLUMNS = SHAPE


def _shape(rows: int) -> Dimensions:
    return rows, _COLUMNS


def _of(dimensions: Dimensions) -> RequestArgument:
    """A whole buffer, of which the request gives the dimensions."""
    return replace(WHOLE, dimensions=dimensions)


def _work(held: Prepared, rows: int) -> SmallRequest:
    """A request of so many rows, which are filled."""
    return _filled(held.small, rows)


def _filled(small: SmallModel, rows: int) -> SmallRequest:
    work = SmallRequest(small.of_rows(rows))
    work.fill(rows)
    return work


def _open(device: Subject, dimensions: Dimensions = ()) -> DeviceBuffer:
    """A buffer for any number of rows, or of some dimensions. Raises NotOfferedError."""
    return DeviceBuffer(prepare_open(device), dimensions=dimensions)


def _require_shape(result: request_pb2.ExecutionResult, rows: int) -> None:
    shapes = [(tuple(shape.dimensions), shape.is_sufficient) for shape in result.output_shapes]
    require(
        shapes == [(_shape(rows), True)] and result.output_sufficient_size, f"{shapes}", f"{_shape(rows)}, sufficient"
    )


@rule(GROUP, _PAGE, "MD-18")
def axes(device: Subject) -> None:
    """An axis may be unknown when a buffer is allocated, or be given; copies bring the dimensions."""
    held = prepare_open(device)
    choices: dict[Dimensions, int] = {(): 3, (0, _COLUMNS): 3, (0, 0): 3, SHAPE: _ROWS, (2 * _ROWS, 0): 2 * _ROWS}
    for dimensions, rows in choices.items():
        for side in ("inputs", "outputs"):
            made = allocate(held, **{side: [(0, 0)]}, dimensions=dimensions)
            buffer = DeviceBuffer(replace_rows(held, rows), made)
            buffer.fill(1, _shape(rows))
            buffer.require_values(1)


def replace_rows(held: Prepared, rows: int) -> Prepared:
    """Return the prepared model for values of so many rows."""
    return Prepared(held.session, held.small.of_rows(rows), held.handle)


@rule(GROUP, _PAGE, "MD-18")
def any_rank(device: Subject) -> None:
    """A role of unknown rank takes any dimensions."""
    held = prepare_form(device, device.small.of("of any rank", dimensions=()))
    for dimensions in ((), (2, 0), (2, 3)):
        made = allocate(held, [(0, 0)], [(0, 0)], dimensions=dimensions)
        require(made.token > 0, f"token {made.token} for {dimensions}", "a token above 0")


@rule(GROUP, _PAGE, "MD-18")
def combined(device: Subject) -> None:
    """What each of the roles knows of the dimensions counts for the buffer."""
    rows = prepare_form(device, device.small.of("of any width", dimensions=(_ROWS, 0)))
    columns = device.small.of("of any number of rows", dimensions=(0, _COLUMNS))
    models = [rows.handle, prepare_form(device, columns, rows.session).handle]
    buffer = DeviceBuffer(rows, allocate(rows, [(0, 0)], [(1, 0)], models=models))
    buffer.copy_from(buffer.held.small.values(2)[0].tobytes())
    buffer.require_values(2)


@rule(GROUP, _PAGE, "MD-22", "MD-23", "MD-24", "MD-36")
def copies(device: Subject) -> None:
    """Given dimensions determine the size that copyFrom takes, and it that of copyTo: others are INVALID_ARGUMENT."""
    buffer = _open(device)
    for rows in (1, 2, 1):
        size = rows * buffer.size // _ROWS
        for other in (size // 2, 2 * size):
            refused(partial(buffer.copy_from, bytes(other), _shape(rows)), INVALID, what=f"{other} bytes, {rows} rows")
        buffer.fill(rows, _shape(rows))
        for other in (size // 2, 2 * size):
            refused(partial(buffer.copy_to, other), INVALID, what=f"copyTo of {other} bytes")
        expected = buffer.held.small.of_rows(rows).values(rows)[0].tobytes()
        require(buffer.copy_to(size) == expected, "other bytes", "those that were copied to it")


@rule(GROUP, _PAGE, "MD-30", "MD-31", "MD-32", "MD-33", "MD-34", "MD-37", "MD-40")
def all_dimensions(device: Subject) -> None:
    """copyFrom to such a buffer needs all dimensions, and right ones: the buffer holds nothing after others."""
    buffer = _open(device)
    for size in (1, buffer.size, 2 * buffer.size):
        buffer.require_nothing(size)
    for dimensions in ((_ROWS,), (2 * _ROWS, _COLUMNS + 1), (_ROWS, 0), (0, _COLUMNS), (), (-1, _COLUMNS)):
        buffer.fill(1, SHAPE)
        for size in (buffer.size // 2, buffer.size):
            refused(partial(buffer.copy_from, bytes(size), dimensions), INVALID, what=f"{size} bytes, {dimensions}")
        buffer.require_nothing()


@rule(GROUP, _PAGE, "MD-51", "MD-52", "MD-54", "MD-55", over=ALL_RUNS)
def contradictions(device: Subject, way: RunWay) -> None:
    """Dimensions of a request that contradict its buffer are INVALID_ARGUMENT, and change nothing."""
    buffer = _open(device, SHAPE)
    held = buffer.held
    buffer.fill(1, SHAPE)
    twice, once = _work(held, 2 * _ROWS), _work(held, _ROWS)
    wrong = _of(_shape(2 * _ROWS))
    for what, request in {
        "read": buffer.reading(argument=wrong, work=twice),
        "written": buffer.writing(argument=wrong, work=twice),
    }.items():
        refused_run(way, held, request, INVALID, what=what)
    buffer.require_values(1)
    way(held, buffer.writing(argument=_of(SHAPE), work=once))()
    buffer.require_output_in_it(once)


@rule(GROUP, _PAGE, "MD-53", "MD-54", "MD-60", over=RUNS)
def results(device: Subject, way: RunWay) -> None:
    """A result that contradicts the dimensions of its buffer is GENERAL_FAILURE, and leaves it with nothing."""
    buffer = _open(device, SHAPE)
    held = buffer.held
    for _ in range(2):
        refused_run(way, held, buffer.writing(work=_work(held, 2 * _ROWS)), FAILURE)
        buffer.require_nothing()
        work = _work(held, _ROWS)
        _require_shape(way(held, buffer.writing(work=work))(), _ROWS)
        buffer.require_output_in_it(work)


@rule(GROUP, _PAGE, "MD-18", "MD-56", over=RUNS)
def shapes(device: Subject, way: RunWay) -> None:
    """A buffer takes the shape of each result, which the next run that reads it must have."""
    buffer = _open(device)
    held = buffer.held
    for rows in (1, 3, 2):
        work = _work(held, rows)
        _require_shape(way(held, buffer.writing(work=work))(), rows)
        refused(partial(buffer.copy_to, work.small.bytes + 1), INVALID, what="copyTo of another size")
        buffer.require_output_in_it(work)
        more = _work(held, rows + 1)
        refused_run(way, held, buffer.reading(argument=_of(_shape(rows + 1)), work=more), INVALID, what="another shape")
        buffer.fill(rows, _shape(rows))
        work.run(way(held, buffer.reading(argument=_of(_shape(rows)), work=work)), rows)


@rule(GROUP, _PAGE, "MD-56")
def reusable(device: Subject) -> None:
    """A reusable execution follows the shape of its buffers from run to run."""
    first = _open(device)
    held = first.held
    second = DeviceBuffer(held)
    works = {rows: _work(held, rows) for rows in (1, 2)}
    write = {rows: held.bind(first.writing(work=work)) for rows, work in works.items()}
    read = {rows: held.bind(first.reading(argument=_of(_shape(rows)), work=work)) for rows, work in works.items()}
    for rows in (1, 2, 1, 1, 2):
        works[rows].fill(rows)
        write[rows].run()
        refused(read[3 - rows].run, INVALID, what=f"{3 - rows} rows of a buffer with {rows}")
        first.fill(rows, _shape(rows))
        works[rows].run(read[rows].run, rows)
    second.release()


@rule(GROUP, _PAGE, "MD-55", over=ALL_RUNS)
def refused_requests(device: Subject, way: RunWay) -> None:
    """A request that is refused for one of its outputs changes no buffer."""
    small = prepare_open(device).small
    held = prepare_twice(device, small)
    growing = DeviceBuffer(held, allocate(held, (), [(0, 0)]))
    fixed = DeviceBuffer(held, allocate(held, (), [(0, 1)], dimensions=SHAPE))
    growing.fill(1, SHAPE)
    fixed.fill(2, SHAPE)
    request = joined(*(_filled(small, 2 * _ROWS) for _ in range(2)))
    outputs = tuple(RequestArgument(DataLocation(pool), _shape(2 * _ROWS)) for pool in (2, 3))
    pools = (*request.pools, growing.made.token, fixed.made.token)
    refused_run(way, held, replace(request, outputs=outputs, pools=pools), INVALID)
    growing.require_values(1)
    fixed.require_values(2)


@rule(GROUP, _PAGE, "MD-60", over=RUNS)
def short_output_beside(device: Subject, way: RunWay) -> None:
    """An output in memory that is too short is told beside one in a buffer, which then holds nothing."""
    small = prepare_open(device).small
    held = prepare_twice(device, small)
    buffer = DeviceBuffer(held, allocate(held, (), [(0, 0)]))
    works = [_filled(small, 2 * _ROWS) for _ in range(2)]
    request = joined(*works)
    second = request.outputs[1]
    short = replace(second, location=replace(second.location, length=second.location.length // 2), dimensions=())
    outputs = (RequestArgument(DataLocation(2)), short)
    result = way(held, Request(request.inputs, outputs, (*request.pools, buffer.made.token)))()
    require(not result.output_sufficient_size, "output_sufficient_size true", "false: half of an output is missing")
    fits = [shape.is_sufficient for shape in result.output_shapes]
    require(fits == [True, False], f"{fits}", "the first sufficient, the second not")
    buffer.require_nothing(works[0].small.bytes)


@rule(GROUP, _PAGE, "MD-56", over=RUNS)
def empty_result(device: Subject, way: RunWay) -> None:
    """A result without elements sets the shape of its buffer, as any other does."""
    held = device.prepare_if_supported(detecting(), "BOX_WITH_NMS_LIMIT of float32")
    buffer = DeviceBuffer(held, allocate(held, (), [(0, 0)]))
    for found in (2, 0, 3):
        given = detect_request(found)
        request = given.request(4)
        pools = (given.memory, buffer.made.token)
        result = way(held, replace(request, outputs=(WHOLE, *request.outputs[1:]), pools=pools))()
        shapes = [tuple(shape.dimensions) for shape in result.output_shapes]
        require(shapes == [(found,), (found, 4), (found,), (found,)], f"{shapes}", f"{found} boxes")
        for count in (1, 2, 3):
            if count == found:
                buffer.copy_to(4 * count)
            else:
                refused(partial(buffer.copy_to, 4 * count), INVALID, what=f"copyTo of {count} scores of {found}")


@rule(GROUP, _PAGE, "MD-62", over=LAUNCHES)
def chain_of_launches(device: Subject, launch: LaunchWay) -> None:
    """A buffer changes its shape along a chain of launches: one that needs more memory disturbs none before it."""
    buffer = _open(device)
    held = buffer.held
    signal, pending = create_fence()
    fences, launched, works = [pending.descriptor], list[Launch](), list[SmallRequest]()
    for rows in (1, 4, 2):
        argument = _of(_shape(rows))
        writing, reading = _work(held, rows), _work(held, rows)
        for request in (
            buffer.writing(argument=argument, work=writing),
            buffer.reading(argument=argument, work=reading),
        ):
            launched.append(launch(held, request)(fences))
            fence = launched[-1].fence
            assert fence is not None
            fences = [fence.descriptor]
        works.append(reading)
    require(all(work.is_untouched for work in works), "an output before the fence has signalled", "nothing written")
    signal.send()
    for each in launched:
        each.require_success()
    require(not any(work.is_untouched for work in works), "an output that is not written", "all of them")
    last = _work(held, 2)
    refused(lambda: buffer.copy_to(last.small.bytes * 2), INVALID, what="copyTo of 4 rows")
    buffer.copy_to(last.small.bytes)


@rule(GROUP, _PAGE, "MD-54", over=LAUNCHES)
def launched_dimensions(device: Subject, launch: LaunchWay) -> None:
    """A launch needs the dimensions of its outputs, though its buffer has them: else it is INVALID_ARGUMENT."""
    buffer = _open(device, SHAPE)
    work = _work(buffer.held, _ROWS)
    try:
        launched = launch(buffer.held, buffer.writing(work=work))
    except HalError as error:
        require(error.status == INVALID, str(error), "INVALID_ARGUMENT")
        return
    refused(launched, INVALID, what="an output of unknown dimensions")
