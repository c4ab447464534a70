"""Fenced executions over gRPC, and the fences that they wait for and signal."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from nnhal.descriptor import Descriptor
from nnhal.errors import HalError
from nnhal.fence import FenceState, create_fence
from nnhal.types import ErrorStatus
from nnhal.v1 import fenced_execution_callback_pb2, prepared_model_pb2
from nnhal_tools.check.check import FAILURE, INVALID, MISSED, check, offered, refused, require
from nnhal_tools.check.checked_device import Bound, CheckedDevice, CheckedLaunch, Prepared, settled

GROUP = "fences"
_PAGE = "messages.md#fences"
_WAITS = 3


def launches(held: Prepared, bound: Bound, request: Any) -> dict[str, Callable[..., CheckedLaunch]]:
    """Both ways to launch over gRPC."""
    return {"a request": partial(held.launch, request), "a reusable execution": bound.launch}


@check(GROUP, _PAGE, "FC-01", "EX-11", "EX-12", "RE-02")
def launch(device: CheckedDevice) -> None:
    """A launch without fences ends with NONE: its fence signals, or it has none and has ended already."""
    held = device.prepare()
    work = held.work()
    bound = held.bind(work.request)
    for what, way in launches(held, bound, work.request).items():
        for seed in range(2):
            work.fill(seed)
            launched = way()
            if launched.fence is not None:
                require(settled(launched.fence, device.seconds), f"{what}: a fence in error", "its signal")
            info = launched.info()
            require(info.error_status == 0, f"{what}: {info.message}", "NONE")
            work.require_output()


@check(GROUP, _PAGE, "FC-02", "FC-09")
def waiting(device: CheckedDevice) -> None:
    """A launch begins when all its fences have signalled; until then GetExecutionInfo is GENERAL_FAILURE."""
    held = device.prepare()
    work = held.work()
    bound = held.bind(work.request)
    for what, way in launches(held, bound, work.request).items():
        ends = [create_fence() for _ in range(_WAITS)]
        work.fill()
        launched = way([pending.descriptor for _, pending in ends])
        require(launched.fence is not None, f"{what}: no fence of a launch that waits", "a fence")
        for signal, _ in ends:
            require(work.is_untouched, f"{what}: an output before the fences have signalled", "nothing written")
            refused(launched.info, FAILURE, what=f"{what} that waits")
            signal.send()
        info = launched.end()
        require(info.error_status == 0, f"{what}: {info.message}", "NONE")
        require(launched.info() == info, f"{what}: another answer the second time", "always the same")
        work.require_output()


@check(GROUP, _PAGE, "FC-02", "EX-12")
def chained(device: CheckedDevice) -> None:
    """The fence of a launch may be waited for by another one, any number of times."""
    held = device.prepare()
    works = [held.work() for _ in range(3)]
    signal, pending = create_fence()
    for work in works:
        work.fill()
    first = held.launch(works[0].request, [pending.descriptor])
    assert first.fence is not None
    later = [held.launch(work.request, [first.fence.descriptor]) for work in works[1:]]
    signal.send()
    for each, work in zip([first, *later], works, strict=True):
        require(each.end().error_status == 0, "an error", "NONE")
        work.require_output()
    require(first.fence.state is FenceState.SIGNALLED, f"{first.fence.state}", "a fence that stays signalled")
    work = held.work()
    work.run(lambda: held.launch(work.request, [first.fence.descriptor]).end())  # type: ignore[union-attr]


@check(GROUP, _PAGE, "FC-03")
def error_before(device: CheckedDevice) -> None:
    """A fence that is in error when the execution is launched is INVALID_ARGUMENT."""
    held = device.prepare()
    work = held.work()
    for what, way in launches(held, held.bind(work.request), work.request).items():
        signal, failed = create_fence()
        signal.fail()
        refused(partial(way, [failed.descriptor]), INVALID, what=what)


@check(GROUP, _PAGE, "FC-04", "FC-10")
def error_after(device: CheckedDevice) -> None:
    """If a fence fails after the launch, nothing runs, the launch's own fence is in error and its info says why."""
    held = device.prepare()
    work = held.work()
    for what, way in launches(held, held.bind(work.request), work.request).items():
        signal, pending = create_fence()
        work.fill()
        launched = way([pending.descriptor])
        signal.fail()
        assert launched.fence is not None
        require(not settled(launched.fence, device.seconds), f"{what}: a signal", "a fence in error")
        info = launched.info()
        require(ErrorStatus(info.error_status) == FAILURE, f"{what}: status {info.error_status}", "GENERAL_FAILURE")
        require(work.is_untouched, f"{what}: an output", "nothing written")


def _memory() -> Descriptor:
    return Descriptor(os.memfd_create("nnhal-check", os.MFD_CLOEXEC))


@check(GROUP, _PAGE, "VR-05")
def no_fence(device: CheckedDevice) -> None:
    """A descriptor that is no socket, or an id that does not exist, is INVALID_ARGUMENT as a fence."""
    held = device.prepare()
    work = held.work()
    refused(lambda: held.launch(work.request, [_memory()]), INVALID, what="memory")
    refused(lambda: held.launch_after(work.request, [10**9]), INVALID, what="an unknown id")


@check(GROUP, _PAGE, "FC-05", "RQ-13")
def invalid_numbers(device: CheckedDevice) -> None:
    """A deadline or a duration below -1 is INVALID_ARGUMENT."""
    held = device.prepare()
    work = held.work()
    for what, way in launches(held, held.bind(work.request), work.request).items():
        for field in ("deadline_ns", "duration_ns"):
            refused(partial(way, **{field: -2}), INVALID, what=f"{what}, {field} -2")


@check(GROUP, _PAGE, "FC-06", "QS-05")
def deadlines(device: CheckedDevice) -> None:
    """A launch whose deadline passes while it waits does not hang: it ends with MISSED_DEADLINE, or is refused so."""
    held = device.prepare()
    work = held.work()
    _, pending = create_fence()
    try:
        launched = held.launch(work.request, [pending.descriptor], deadline_ns=0)
    except HalError as error:
        require(error.status in MISSED, str(error), "MISSED_DEADLINE")
        return
    assert launched.fence is not None
    require(not settled(launched.fence, device.seconds), "a signal", "a fence in error")
    status = ErrorStatus(launched.info().error_status)
    require(status in MISSED, status.name, "MISSED_DEADLINE")


@check(GROUP, _PAGE)
def dropped(device: CheckedDevice) -> None:
    """A launch keeps a copy of the fences that it waits for, which may be dropped when the call has returned."""
    held = device.prepare()
    work = held.work()
    signal, pending = create_fence()
    (number,) = held.session.link.put(pending.fileno())
    work.fill()
    launched = held.launch_after(work.request, [number])
    held.session.link.drop(number)
    pending.descriptor.close()
    signal.send()
    require(launched.end().error_status == 0, "an error", "NONE")
    work.require_output()


@check(GROUP, "link.md#a-session")
def released_callback(device: CheckedDevice) -> None:
    """A callback that is released is unknown; what it launched goes on."""
    held = device.prepare()
    work = held.work()
    signal, pending = create_fence()
    work.fill()
    launched = held.launch(work.request, [pending.descriptor])
    message = fenced_execution_callback_pb2.FencedExecutionCallbackServiceReleaseRequest(callback=launched.callback)
    offered(lambda: held.session.call(held.session.callback.Release, message), "callbacks last as long as the session")
    refused(launched.info, INVALID, what="a released callback")
    signal.send()
    assert launched.fence is not None
    require(settled(launched.fence, device.seconds), "a fence in error", "its signal")
    work.require_output()


@check(GROUP, _PAGE)
def plain_launch(device: CheckedDevice) -> None:
    """ExecuteFenced of a prepared model gives the same results as the call with a config."""
    held = device.prepare()
    work = held.work()

    def plainly(**fields: Any) -> prepared_model_pb2.FencedExecutionResult:
        message = prepared_model_pb2.PreparedModelServiceExecuteFencedRequest(
            prepared_model=held.handle, request=held.session.request(work.request), **fields
        )
        return held.session.call(held.session.prepared_model.ExecuteFenced, message).result

    work.fill()
    launched = CheckedLaunch(held.session, offered(plainly, "only the calls with a config are made by the framework"))
    require(launched.end().error_status == 0, "an error", "NONE")
    work.require_output()
    refused(lambda: plainly(duration_ns=-2), INVALID, what="duration -2")
