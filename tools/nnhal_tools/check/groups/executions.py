"""Executions of requests, and reusable executions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from nnhal.clock import now_ns
from nnhal.errors import HalError
from nnhal.fence import create_fence
from nnhal.types import DataLocation, Request, RequestArgument
from nnhal.v1 import prepared_model_pb2, request_pb2, types_pb2
from nnhal_tools.check.check import FAILURE, INVALID, MISSED, check, offered, refused, require
from nnhal_tools.check.checked_device import CheckedDevice
from nnhal_tools.check.small_models import SHAPE, CheckedRequest

GROUP = "executions"
_PAGE = "messages.md#executions"
LATEST_NS = 2**63 - 1


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


@check(GROUP, _PAGE, "EX-01", "EX-02")
def execute(device: CheckedDevice) -> None:
    """A valid request is executed: the output is written before the answer, and times are -1."""
    held = device.prepare()
    work = held.work()
    for seed in range(3):
        work.fill(seed)
        require_result(held.execute(work.request))
        work.require_output()


@check(GROUP, _PAGE, "EX-03")
def measured(device: CheckedDevice) -> None:
    """With measure_timing times are -1 or more, and that on the device is not longer than that in the driver."""
    held = device.prepare()
    work = held.work()
    work.fill()
    require_result(held.execute(work.request, measure_timing=True), measured=True)
    work.require_output()


@check(GROUP, _PAGE, "EX-10", "RE-01", "RE-05")
def again(device: CheckedDevice) -> None:
    """A reusable execution is run many times, and sees new inputs each time."""
    held = device.prepare()
    work = held.work()
    bound = held.bind(work.request)
    for seed in range(5):
        work.fill(seed)
        require_result(bound.run())
        work.require_output()


@check(GROUP, _PAGE, "RE-08")
def after_release(device: CheckedDevice) -> None:
    """A reusable execution works on when its prepared model is released; once released itself it is unknown."""
    held = device.prepare()
    work = held.work()
    bound = held.bind(work.request)
    work.run(bound.run)
    held.release()
    work.run(bound.run)
    bound.release()
    refused(bound.run, INVALID, what="a released execution")


@check(GROUP, _PAGE, "RE-04")
def one_at_a_time(device: CheckedDevice) -> None:
    """An execution that is launched and waits is not run a second time: GENERAL_FAILURE."""
    held = device.prepare()
    work = held.work()
    bound = held.bind(work.request)
    signal, pending = create_fence()
    work.fill()
    launched = bound.launch([pending.descriptor])
    refused(bound.run, FAILURE, what="a second run")
    signal.send()
    require(launched.end().error_status == 0, "an error of the first", "success, as if nothing had happened")
    work.require_output()
    work.run(bound.run)


def invalid_requests(work: CheckedRequest) -> dict[str, Request]:
    """Requests that do not fit the model, each by one thing."""
    good = work.request
    argument = good.inputs[0]
    place = argument.location
    size = CheckedRequest.bytes_of(work.small)

    def first(**fields: Any) -> Request:
        return replace(good, inputs=(replace(argument, **fields), *good.inputs[1:]))

    def at(**fields: Any) -> Request:
        return first(location=replace(place, **fields))

    return {
        "an input too many": replace(good, inputs=(*good.inputs, argument)),
        "an input too few": replace(good, inputs=good.inputs[:-1]),
        "an output too many": replace(good, outputs=(*good.outputs, argument)),
        "no outputs": replace(good, outputs=()),
        "a pool that is not there": at(pool_index=1),
        "pool -1": at(pool_index=-1),
        "a range past the end of the pool": at(offset=size - place.length + 1),
        "padding past the end of the pool": at(padding=size),
        "a length of 0": at(length=0),
        "a negative offset": at(offset=-1),
        "an offset of 2^63 - 1": at(offset=2**63 - 1),
        "a length that is too short": at(length=place.length - 1),
        "a length that is too long": at(length=place.length + 1),
        "dimensions of another rank": first(dimensions=(*SHAPE, 1)),
        "other dimensions": first(dimensions=(SHAPE[0] + 1, SHAPE[1])),
        "an omitted input with a location": first(has_no_value=True),
        "an omitted input": replace(good, inputs=(RequestArgument(DataLocation(), (), True), *good.inputs[1:])),
        "a device buffer that was never given out": replace(good, pools=(2**62,)),
    }


@check(GROUP, _PAGE, "RQ-01", "RQ-02", "RQ-03", "RQ-04", "RQ-05", "RQ-06", "RQ-09", "RQ-12", "VR-01", "VR-02")
def invalid(device: CheckedDevice) -> None:
    """A request that does not fit the model is INVALID_ARGUMENT, with the reason."""
    held = device.prepare()
    work = held.work()
    for what, request in invalid_requests(work).items():
        refused(partial(held.execute, request), INVALID, what=what)
    work.run(lambda: held.execute(work.request))


@check(GROUP, _PAGE, "RE-03")
def invalid_bound(device: CheckedDevice) -> None:
    """A reusable execution of such a request is INVALID_ARGUMENT when it is made, or each time it is run."""
    held = device.prepare()
    for what, request in invalid_requests(held.work()).items():
        refused(lambda request=request: held.bind(request).run(), INVALID, what=what)  # type: ignore[misc]


@check(GROUP, _PAGE, "RQ-13", "RE-07")
def invalid_numbers(device: CheckedDevice) -> None:
    """Deadlines and timeouts below -1 and hints that stand twice are INVALID_ARGUMENT."""
    held = device.prepare()
    request = held.work().request
    hint = types_pb2.TokenValuePair(token=1 << 16)
    names = [types_pb2.ExtensionNameAndPrefix(name="com.example.check", prefix=1)]
    twice = {"execution_hints": [hint, hint], "extension_name_to_prefix": names}
    calls: dict[str, Callable[[], object]] = {
        "deadline -2": lambda: held.execute(request, deadline_ns=-2),
        "loop timeout -2": lambda: held.execute(request, loop_timeout_duration_ns=-2),
        "the same hint twice": lambda: held.execute(request, **twice),
        "deadline -2 of a reusable execution": lambda: held.bind(request).run(deadline_ns=-2),
        "loop timeout -2 of a reusable execution": lambda: held.bind(request, loop_timeout_duration_ns=-2).run(),
        "the same hint twice of a reusable execution": lambda: held.bind(request, **twice).run(),
    }
    for what, call in calls.items():
        refused(call, INVALID, what=what)


def within(deadline: Callable[[], object], work: CheckedRequest, what: str) -> None:
    """Check a run with a deadline that is about to pass: success with right values, or MISSED_DEADLINE."""
    work.fill()
    try:
        deadline()
    except HalError as error:
        require(error.status in MISSED, f"{what}: {error}", "NONE or MISSED_DEADLINE")
        return
    work.require_output()


@check(GROUP, "messages.md#fields-that-are-absent", "QS-05", "QS-06", "QS-08", "QS-10")
def deadlines(device: CheckedDevice) -> None:
    """A deadline that has passed is NONE with right values or MISSED_DEADLINE; a late one, -1 or none at all NONE."""
    held = device.prepare()
    work = held.work()
    bound = held.bind(work.request)
    for what, instant in {"instant 0": 0, "the present instant": now_ns()}.items():
        within(partial(held.execute, work.request, deadline_ns=instant), work, what)
        within(partial(bound.run, deadline_ns=instant), work, f"{what}, reusable")
    work.run(lambda: held.execute(work.request, deadline_ns=LATEST_NS))
    work.run(lambda: bound.run(deadline_ns=-1))
    work.run(bound.run)


@check(GROUP, _PAGE, "EX-04", "EX-06", "RQ-08")
def open_output(device: CheckedDevice) -> None:
    """An output of open dimensions is told with its dimensions; if its memory is too short, that is no error."""
    small = device.small
    held = device.prepare_if_supported(small.of_open_output(), f"{small.name} with an output of open dimensions")
    work = held.work()
    work.fill()
    try:
        result = held.execute(work.request)
    except HalError as error:
        require(error.status == FAILURE, str(error), "NONE or GENERAL_FAILURE")
        return
    shapes = [(tuple(shape.dimensions), shape.is_sufficient) for shape in result.output_shapes]
    require(shapes == [(SHAPE, True)] and result.output_sufficient_size, f"shapes {shapes}", f"{list(SHAPE)}")
    work.require_output()
    (output,) = work.request.outputs
    short = replace(output, location=replace(output.location, length=output.location.length - 1))
    result = held.execute(replace(work.request, outputs=(short,)))
    require(not result.output_sufficient_size, "output_sufficient_size true", "false: a byte is missing")
    require(
        [shape.is_sufficient for shape in result.output_shapes] == [False], f"{result}", "one shape that did not fit"
    )


@check(GROUP, "messages.md#fences", "EX-05", "EX-07", "FC-07")
def open_output_fenced(device: CheckedDevice) -> None:
    """A fenced execution with an output of open dimensions is INVALID_ARGUMENT."""
    small = device.small
    held = device.prepare_if_supported(small.of_open_output(), f"{small.name} with an output of open dimensions")
    refused(lambda: held.launch(held.work().request), INVALID)


@check(GROUP, _PAGE)
def plain_execution(device: CheckedDevice) -> None:
    """ExecuteSynchronously gives the same results as the call with a config."""
    held = device.prepare()
    work = held.work()

    def plainly(**fields: Any) -> prepared_model_pb2.PreparedModelServiceExecuteSynchronouslyResponse:
        message = prepared_model_pb2.PreparedModelServiceExecuteSynchronouslyRequest(
            prepared_model=held.handle, request=held.session.request(work.request), **fields
        )
        return held.session.call(held.session.prepared_model.ExecuteSynchronously, message)

    work.fill()
    require_result(offered(plainly, "only the calls with a config are made by the framework").result)
    work.require_output()
    refused(lambda: plainly(deadline_ns=-2), INVALID, what="deadline -2")


@check(GROUP, _PAGE)
def side_by_side(device: CheckedDevice) -> None:
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
