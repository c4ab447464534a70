"""Executions of requests, and reusable executions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from nnhal.clock import now_ns
from nnhal.errors import HalError
from nnhal.fence import create_fence
from nnhal.memory import BufferDescription, create_hardware_buffer
from nnhal.memory.hardware_buffer import Format, Usage
from nnhal.types import DataLocation, Request, RequestArgument, RequestMemoryPool
from nnhal.v1 import request_pb2, types_pb2
from nnhal_conformance.device import Subject
from nnhal_conformance.forms import (
    Bytes,
    count_request,
    counting,
    detect_request,
    detecting,
    joined,
    prepare_open,
    prepare_twice,
    projecting,
)
from nnhal_conformance.rule import FAILURE, INVALID, MISSED, refused, require, rule
from nnhal_conformance.small_models import SHAPE, SmallRequest
from nnhal_conformance.ways import ALL_RUNS, PLAIN_RUNS, RUNS, RunWay, refused_run

GROUP = "executions"
_PAGE = "reference/protocol.md#executions"
_LATEST = 2**63 - 1
_USAGE = Usage.CPU_READ_OFTEN | Usage.CPU_WRITE_OFTEN
WITH_CONFIG = {name: way for name, way in RUNS.items() if name not in PLAIN_RUNS}


def require_result(result: request_pb2.ExecutionResult, measured: bool = False) -> None:
    """Check the result of an execution whose output has known dimensions and fits."""
    shapes = [(tuple(shape.dimensions), shape.is_sufficient) for shape in result.output_shapes]
    require(result.output_sufficient_size, "output_sufficient_size false", "true, since the output fits")
    require(shapes in ([], [(SHAPE, True)]), f"output shapes {shapes}", f"none, or {list(SHAPE)} as sufficient")
    times = result.timing.time_on_device_ns, result.timing.time_in_driver_ns
    if measured:
        require(min(times) >= -1 and (times[1] == -1 or times[0] <= times[1]), f"times {times}", "device <= driver")
    else:
        require(times == (-1, -1), f"times {times}", "-1 and -1, since nothing is measured")


@rule(GROUP, _PAGE, "EX-01", "EX-02", "RE-01", "RE-05", "BU-01", over=ALL_RUNS)
def execute(device: Subject, way: RunWay) -> None:
    """A valid request is executed: the output is written before the answer, of these inputs, and times are -1."""
    held = device.prepare()
    work = held.work()
    run = way(held, work.request)
    for seed in range(4):
        work.run(lambda: require_result(run()), seed)


@rule(GROUP, _PAGE, "EX-03", "EX-13", over=RUNS)
def measured(device: Subject, way: RunWay) -> None:
    """With measure_timing times are -1 or more, and that on the device is not longer than that in the driver."""
    held = device.prepare()
    work = held.work()
    work.run(lambda: require_result(way(held, work.request)(measure_timing=True), measured=True))


@rule(GROUP, _PAGE, "EX-10", "RE-01", "RE-05")
def again(device: Subject) -> None:
    """A reusable execution is run many times, and sees new inputs each time."""
    held = device.prepare()
    work = held.work()
    bound = held.bind(work.request)
    for seed in range(5):
        work.run(lambda: require_result(bound.run()), seed)


@rule(GROUP, _PAGE, "RE-08")
def after_release(device: Subject) -> None:
    """A reusable execution works on when its prepared model is released; once released itself it is unknown."""
    held = device.prepare()
    work = held.work()
    bound = held.bind(work.request)
    work.run(bound.run)
    held.release()
    work.run(bound.run)
    bound.release()
    refused(bound.run, INVALID, what="a released execution")


@rule(GROUP, _PAGE, "RE-04")
def one_at_a_time(device: Subject) -> None:
    """An execution that is launched and waits is not run: GENERAL_FAILURE, and the launch is not disturbed."""
    held = device.prepare()
    work = held.work()
    bound = held.bind(work.request)
    burst = held.burst()
    signal, pending = create_fence()
    work.fill()
    launched = bound.launch([pending.descriptor])
    refused(bound.run, FAILURE, what="a second run")
    refused(lambda: burst.run(bound), FAILURE, what="a second run in a burst")
    signal.send()
    launched.require_success()
    work.require_output()
    work.run(bound.run)


def invalid_requests(work: SmallRequest) -> dict[str, Request]:
    """Requests that do not fit the model, each by one thing."""
    good = work.request
    argument, (result,) = good.inputs[0], good.outputs
    place = argument.location
    size = SmallRequest.bytes_of(work.small)
    image = create_hardware_buffer(BufferDescription(8, 8, 1, Format.R8G8B8A8_UNORM, _USAGE, 8))

    def first(**fields: Any) -> Request:
        return replace(good, inputs=(replace(argument, **fields), *good.inputs[1:]))

    def at(**fields: Any) -> Request:
        return first(location=replace(place, **fields))

    def output(**fields: Any) -> Request:
        return replace(good, outputs=(replace(result, **fields),))

    def output_at(**fields: Any) -> Request:
        return output(location=replace(result.location, **fields))

    def in_pool(pool: RequestMemoryPool, **fields: int) -> Request:
        moved = RequestArgument(DataLocation(1, **fields))
        return replace(good, inputs=(moved, *good.inputs[1:]), pools=(*good.pools, pool))

    return {
        "an input too many": replace(good, inputs=(*good.inputs, argument)),
        **{
            f"no input {n}": replace(good, inputs=(*good.inputs[:n], *good.inputs[n + 1 :]))
            for n in range(len(good.inputs))
        },
        "an output too many": replace(good, outputs=(result, result)),
        "no outputs": replace(good, outputs=()),
        "no pools": replace(good, pools=()),
        "a pool that is not there": at(pool_index=1),
        "an output in a pool that is not there": output_at(pool_index=1),
        "pool -1": at(pool_index=-1),
        "a range past the end of the pool": at(offset=size - place.length + 1),
        "an output past the end of the pool": output_at(offset=size - place.length + 1),
        "padding past the end of the pool": at(padding=size),
        "a negative padding": at(padding=-1),
        "a padding of 2^63 - 1": at(padding=_LATEST),
        "a length of 0": at(length=0),
        "an output with a length of 0": output_at(length=0),
        "a negative length": at(length=-place.length),
        "a length of 2^63 - 1": at(length=_LATEST),
        "a negative offset": at(offset=-1),
        "an offset of 2^63 - 1": at(offset=_LATEST),
        "a length that is too short": at(length=place.length - 1),
        "a length that is too long": at(length=place.length + 1),
        "an output that is too short": output_at(length=place.length - 1),
        "dimensions of another rank": first(dimensions=(*SHAPE, 1)),
        "an output of another rank": output(dimensions=(*SHAPE, 1)),
        "other dimensions": first(dimensions=(SHAPE[0] + 1, SHAPE[1])),
        "axes in another order": first(dimensions=SHAPE[::-1]),
        "negative dimensions": first(dimensions=(-SHAPE[0], -SHAPE[1])),
        "an omitted input with a location": first(has_no_value=True),
        "an omitted input with dimensions": first(location=DataLocation(), dimensions=SHAPE, has_no_value=True),
        "an omitted input": replace(good, inputs=(RequestArgument(DataLocation(), (), True), *good.inputs[1:])),
        "an offset in an image": in_pool(image, offset=4),
        "a length in an image": in_pool(image, length=place.length),
        "an offset in device memory": in_pool(1, offset=4),
        "a length in device memory": in_pool(1, length=place.length),
        "padding in device memory": in_pool(1, padding=1),
        "token 0": in_pool(0),
        "token -1": in_pool(-1),
        "token 0 in a pool of no use": replace(good, pools=(*good.pools, 0)),
        "a device buffer that was never given out": in_pool(2**62),
    }


@rule(
    GROUP,
    _PAGE,
    *(
        "RQ-01",
        "RQ-02",
        "RQ-03",
        "RQ-04",
        "RQ-05",
        "RQ-06",
        "RQ-09",
        "RQ-10",
        "RQ-11",
        "RQ-12",
        "VR-01",
        "VR-02",
        "BU-10",
        "RE-03",
    ),
    over=ALL_RUNS,
)
def invalid(device: Subject, way: RunWay) -> None:
    """A request that does not fit the model is INVALID_ARGUMENT, with the reason; a reusable one when it is made, or
    each time it is run.
    """
    held = device.prepare()
    work = held.work()
    for what, request in invalid_requests(work).items():
        refused_run(way, held, request, INVALID, what=what)
    work.run(way(held, work.request))


@rule(GROUP, _PAGE, "RQ-13", over=ALL_RUNS)
def invalid_numbers(device: Subject, way: RunWay) -> None:
    """Deadlines below -1 are INVALID_ARGUMENT."""
    held = device.prepare()
    refused(lambda: way(held, held.work().request)(deadline_ns=-2), INVALID, what="deadline -2")


@rule(GROUP, _PAGE, "RQ-13", "RE-07", over=RUNS)
def invalid_timeouts(device: Subject, way: RunWay) -> None:
    """Timeouts of loops below -1 or above 15 s are INVALID_ARGUMENT."""
    held = device.prepare()
    for wrong in (-2, 15 * 10**9 + 1):
        what = f"loop timeout {wrong} ns"
        refused_run(way, held, held.work().request, INVALID, what=what, loop_timeout_duration_ns=wrong)


@rule(GROUP, _PAGE, "RE-07", "PM-15", over=WITH_CONFIG)
def hints(device: Subject, way: RunWay) -> None:
    """Hints of an extension are ignored; those that stand twice or name no extension are INVALID_ARGUMENT."""
    held = device.prepare()
    work = held.work()
    names = [types_pb2.ExtensionNameAndPrefix(name="com.example.check", prefix=1)]

    def run(*tokens: int) -> request_pb2.ExecutionResult:
        given = [types_pb2.TokenValuePair(token=token, value=b"x") for token in tokens]
        return way(held, work.request)(execution_hints=given, extension_name_to_prefix=names)

    work.run(lambda: run((1 << 16) + 1, (1 << 16) + 2))
    refused(lambda: run((1 << 16) + 1, (1 << 16) + 1), INVALID, what="the same hint twice")
    refused(lambda: run((2 << 16) + 1), INVALID, what="a hint of no extension")


def within(deadline: Callable[[], object], work: SmallRequest, what: str) -> None:
    """Check a run with a deadline that is about to pass: success with right values, or MISSED_DEADLINE."""
    work.fill()
    try:
        deadline()
    except HalError as error:
        require(error.status in MISSED, f"{what}: {error}", "NONE or MISSED_DEADLINE")
        return
    work.require_output()


@rule(GROUP, "reference/protocol.md#fields-that-are-absent", "QS-05", "QS-06", "QS-08", "QS-10", "BU-11", over=ALL_RUNS)
def deadlines(device: Subject, way: RunWay) -> None:
    """A deadline that has passed is NONE with right values or MISSED_DEADLINE; a late one, -1 or none at all NONE."""
    held = device.prepare()
    work = held.work()
    run = way(held, work.request)
    for what, instant in {"instant 0": 0, "the present instant": now_ns()}.items():
        within(partial(run, deadline_ns=instant), work, what)
    work.run(lambda: run(deadline_ns=_LATEST))
    work.run(lambda: run(deadline_ns=-1))
    work.run(run)


@rule(GROUP, "reference/protocol.md#fields-that-are-absent", over=RUNS)
def absent_fields(device: Subject, way: RunWay) -> None:
    """A call without a deadline, and a config without a timeout, have none."""
    held = device.prepare()
    work = held.work()
    work.run(lambda: way(held, work.request)(deadline_ns=None, loop_timeout_duration_ns=None))


@rule(GROUP, _PAGE, "EX-04", "EX-06", "RQ-08", over=RUNS)
def open_output(device: Subject, way: RunWay) -> None:
    """An output of open dimensions is answered with its dimensions; if its memory is too short, that is no error."""
    small = device.small
    held = device.prepare_if_supported(small.of_open_output(), f"{small.name} with an output of open dimensions")
    work = held.work()
    work.fill()
    try:
        result = way(held, work.request)()
    except HalError as error:
        require(error.status == FAILURE, str(error), "NONE or GENERAL_FAILURE")
        return
    shapes = [(tuple(shape.dimensions), shape.is_sufficient) for shape in result.output_shapes]
    require(shapes == [(SHAPE, True)] and result.output_sufficient_size, f"shapes {shapes}", f"{list(SHAPE)}")
    work.require_output()
    (output,) = work.request.outputs
    longer = replace(output, location=replace(output.location, length=output.location.length + 36))
    work.run(way(held, replace(work.request, outputs=(longer,))))
    short = replace(output, location=replace(output.location, length=output.location.length - 1, padding=1))
    for measure in (False, True):
        result = way(held, replace(work.request, outputs=(short,)))(measure_timing=measure)
        require(not result.output_sufficient_size, "output_sufficient_size true", "false: a byte is missing")
        shapes = [(tuple(shape.dimensions), shape.is_sufficient) for shape in result.output_shapes]
        require(shapes == [(SHAPE, False)], f"{shapes}", "its dimensions, which did not fit")
        times = result.timing.time_on_device_ns, result.timing.time_in_driver_ns
        require(times == (-1, -1), f"times {times}", "-1 and -1")


@rule(GROUP, _PAGE)
def side_by_side(device: Subject) -> None:
    """Prepared models, executions and sessions do not disturb one another."""
    first = device.prepare()
    others = [first, device.prepare(session=first.session), device.prepare()]
    works = [each.work() for each in others for _ in range(2)]
    bounds = [held.bind(work.request) for held, work in zip([h for h in others for _ in range(2)], works, strict=True)]
    for seed, work in enumerate(works):
        work.fill(seed)
    for bound in reversed(bounds):
        bound.run()
    for work in works:
        work.require_output()


@rule(GROUP, _PAGE, "EX-02", "EX-03", "RQ-09", over=ALL_RUNS)
def several_outputs(device: Subject, way: RunWay) -> None:
    """All outputs of a model are written, each in its pool."""
    held = prepare_twice(device, device.small)
    works = [SmallRequest(device.small) for _ in range(2)]
    run = way(held, joined(*works))
    for seed in (1, 4):
        for number, work in enumerate(works):
            work.fill(seed + number)
        run()
        for work in works:
            work.require_output()


@rule(GROUP, _PAGE, "RQ-07", over=ALL_RUNS)
def open_inputs(device: Subject, way: RunWay) -> None:
    """Dimensions of inputs that the model leaves open are given by the request: else it is INVALID_ARGUMENT."""
    held = prepare_open(device)
    work = held.work()
    for dimensions in ((), (0, SHAPE[1])):
        first = replace(work.request.inputs[0], dimensions=dimensions)
        request = replace(work.request, inputs=(first, *work.request.inputs[1:]))
        refused_run(way, held, request, INVALID, what=f"dimensions {dimensions}")
    work.run(way(held, work.request))


@rule(GROUP, _PAGE, "EX-08", over=RUNS)
def empty_output(device: Subject, way: RunWay) -> None:
    """An output without elements fits into any memory."""
    held = device.prepare_if_supported(detecting(), "BOX_WITH_NMS_LIMIT of float32")
    for size in (1, 7, 64):
        result = way(held, detect_request(0, size).request(4))()
        shapes = [(tuple(shape.dimensions), shape.is_sufficient) for shape in result.output_shapes]
        expected = [((0,), True), ((0, 4), True), ((0,), True), ((0,), True)]
        require(result.output_sufficient_size and shapes == expected, f"{shapes}", f"{expected}")


@rule(GROUP, _PAGE, "EX-09", over=ALL_RUNS)
def omitted_input(device: Subject, way: RunWay) -> None:
    """An optional input without a value has its default: weights of 1."""
    held = device.prepare_if_supported(projecting(), "LSH_PROJECTION")
    given = Bytes(12, 12, 256)
    given.write(0, [7, 8, 9], np.int32)
    request = given.request()

    def projected(request: Request, *weights: float) -> list[float]:
        given.write(1, weights, np.float32)
        way(held, request)()
        return given.read(2, np.int32)

    default = RequestArgument(has_no_value=True)
    omitted = projected(replace(request, inputs=(request.inputs[0], default)), 1, -1, 0)
    require(projected(request, 1, 1, 1) == omitted, "other values", "those of weights of 1")
    require(projected(request, 1, -1, 0) != omitted, "the same values with other weights", "others")


@rule(GROUP, _PAGE, "CF-12", "CF-13", "EX-15", over=RUNS)
def loops(device: Subject, way: RunWay) -> None:
    """A loop that takes longer than its timeout is MISSED_DEADLINE; without one it has the default. Others go on."""
    held = device.prepare_if_supported(counting(), "WHILE")
    endless, brief = count_request(-1), count_request(20)
    for what, given, timeout in (("a loop without end", endless, 1_000_000), ("20 turns in 1 ns", brief, 1)):
        refused_run(way, held, given.request(), *MISSED, what=what, loop_timeout_duration_ns=timeout)
        way(held, brief.request())(loop_timeout_duration_ns=-1)
        require(brief.read(1, np.int32) == [20], brief.read(1, np.int32), "20 turns")
