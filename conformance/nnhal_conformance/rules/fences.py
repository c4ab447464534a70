"""Fenced executions, and the fences that they wait for and signal, for each way to launch."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from nnhal.clock import now_ns
from nnhal.descriptor import Descriptor
from nnhal.errors import HalError
from nnhal.fence import FenceState, create_fence
from nnhal.types import ErrorStatus
from nnhal.v1 import fenced_execution_callback_pb2, prepared_model_pb2, request_pb2
from nnhal_conformance.channels import settled
from nnhal_conformance.device import Subject
from nnhal_conformance.forms import gather_request, gathering
from nnhal_conformance.rule import FAILURE, INVALID, MISSED, BrokenRuleError, offered, refused, require, rule
from nnhal_conformance.small_models import SHAPE
from nnhal_conformance.ways import ALL_RUNS, LAUNCHES, RELAUNCHES, LaunchWay, RunWay, refused_run

GROUP = "fences"
_PAGE = "reference/protocol.md#fences"
_WAITS = 3
_SOON_NS = 100_000_000


@rule(GROUP, _PAGE, "FC-01", "EX-11", "EX-12", "RE-02", "RE-05", "EX-10", over=LAUNCHES)
def launch(device: Subject, way: LaunchWay) -> None:
    """A launch without fences ends with NONE: its fence signals, or it has none and has ended already."""
    held = device.prepare()
    work = held.work()
    launched = way(held, work.request)
    for seed in range(3):
        work.run(lambda: launched().require_success(), seed)


@rule(GROUP, _PAGE, "FC-02", "FC-09", over=LAUNCHES)
def waiting(device: Subject, way: LaunchWay) -> None:
    """A launch begins when all its fences have signalled; until then GetExecutionInfo is GENERAL_FAILURE."""
    held = device.prepare()
    work = held.work()
    ends = [create_fence() for _ in range(_WAITS)]
    work.fill()
    launched = way(held, work.request)([pending.descriptor for _, pending in ends])
    require(launched.fence is not None, "no fence of a launch that waits", "a fence")
    for signal, _ in ends:
        require(work.is_untouched, "an output before the fences have signalled", "nothing written")
        refused(launched.info, FAILURE, what="a launch that waits")
        signal.send()
    launched.require_success()
    require(launched.info() == launched.info(), "another answer the second time", "always the same")
    work.require_output()


@rule(GROUP, _PAGE, "FC-02", "EX-12", over=LAUNCHES)
def chained(device: Subject, way: LaunchWay) -> None:
    """The fence of a launch may be waited for by another one, any number of times."""
    held = device.prepare()
    works = [held.work() for _ in range(3)]
    signal, pending = create_fence()
    for work in works:
        work.fill()
    launches = [way(held, work.request) for work in works]
    first = launches[0]([pending.descriptor])
    assert first.fence is not None
    later = [launched([first.fence.descriptor]) for launched in launches[1:]]
    signal.send()
    for each, work in zip([first, *later], works, strict=True):
        each.require_success()
        work.require_output()
    require(first.fence.state is FenceState.SIGNALLED, f"{first.fence.state}", "a fence that stays signalled")
    descriptor = first.fence.descriptor
    works[1].run(lambda: launches[1]([descriptor]).require_success())


@rule(GROUP, _PAGE, "FC-03", over=LAUNCHES)
def error_before(device: Subject, way: LaunchWay) -> None:
    """A fence that is in error when the execution is launched is INVALID_ARGUMENT, whichever of several it is."""
    held = device.prepare()
    work = held.work()
    work.fill()
    for position in range(_WAITS):
        signals, fences = zip(*[create_fence() for _ in range(_WAITS)], strict=True)
        signals[position].fail()
        refused(
            partial(way(held, work.request), [each.descriptor for each in fences]), INVALID, what=f"fence {position}"
        )
    require(work.is_untouched, "an output", "nothing written")


@rule(GROUP, _PAGE, "FC-04", "FC-10", over=LAUNCHES)
def error_after(device: Subject, way: LaunchWay) -> None:
    """If a fence fails after the launch, nothing runs, the launch's own fence is in error and its info says why."""
    held = device.prepare()
    works = [held.work() for _ in range(2)]
    signal, pending = create_fence()
    for work in works:
        work.fill()
    first = way(held, works[0].request)([pending.descriptor])
    assert first.fence is not None
    second = way(held, works[1].request)([first.fence.descriptor])
    signal.fail()
    for each, work in zip((first, second), works, strict=True):
        each.require_error(FAILURE)
        require(bool(each.info().message), "no message", "the reason")
        require(work.is_untouched, "an output", "nothing written")


def memory_descriptor() -> Descriptor:
    """Return a descriptor that is no socket."""
    return Descriptor(os.memfd_create("nnhal-check", os.MFD_CLOEXEC))


def _datagrams() -> Descriptor:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.close()
    return Descriptor(theirs.detach())


@rule(GROUP, _PAGE, "VR-05", over=LAUNCHES)
def no_fence(device: Subject, way: LaunchWay) -> None:
    """A descriptor that is no socket, a link, or a socket of type SOCK_DGRAM is refused as a fence."""
    held = device.prepare()
    work, link = held.work(), device.raw_link()
    _, pending = create_fence()
    launched = way(held, work.request)
    for what, strange in {
        "memory": memory_descriptor(),
        "a socket of type SOCK_DGRAM": _datagrams(),
        "a link": Descriptor(os.dup(link.fileno())),
    }.items():
        refused_fence(partial(launched, [pending.descriptor, strange]), what)
    work.run(lambda: launched().require_success())


def refused_fence(call: Callable[[], object], what: str) -> None:
    """Check that a call refuses a fence, or that the link has refused to take it."""
    try:
        refused(call, INVALID, what=what)
    except BrokenRuleError as error:
        if not str(error).startswith("a put of"):
            raise


@rule(GROUP, _PAGE, "VR-05")
def unknown_fence(device: Subject) -> None:
    """An id of a descriptor that was not put on the link is INVALID_ARGUMENT as a fence."""
    held = device.prepare()
    for number in (10**9, 2**64 - 1):
        refused(partial(held.launch_after, held.work().request, [number]), INVALID, what=f"id {number}")


@rule(GROUP, _PAGE, "FC-05", "RQ-13", over=LAUNCHES)
def invalid_numbers(device: Subject, way: LaunchWay) -> None:
    """A deadline or a duration below -1 is INVALID_ARGUMENT."""
    held = device.prepare()
    launched = way(held, held.work().request)
    for field in ("deadline_ns", "duration_ns"):
        for wrong in (-2, -(2**63)):
            refused(partial(launched, **{field: wrong}), INVALID, what=f"{field} {wrong}")


@rule(GROUP, _PAGE, "FC-06", "QS-05", "QS-07", over=LAUNCHES)
def deadlines(device: Subject, way: LaunchWay) -> None:
    """A launch whose deadline passes while it waits does not hang: it ends with MISSED_DEADLINE, or is refused so."""
    held = device.prepare()
    work = held.work()
    _, pending = create_fence()
    work.fill()
    try:
        launched = way(held, work.request)([pending.descriptor], deadline_ns=0)
    except HalError as error:
        require(error.status in MISSED, str(error), "MISSED_DEADLINE")
    else:
        launched.require_error(*MISSED)
    late = way(held, work.request)([pending.descriptor], deadline_ns=now_ns() + _SOON_NS)
    late.require_error(*MISSED)
    info = late.info()
    times = [info.timing_launched.time_in_driver_ns, info.timing_fenced.time_in_driver_ns]
    require(times == [-1, -1], f"times {times}", "-1, since the deadline was missed")
    require(work.is_untouched, "an output", "nothing written")


@rule(GROUP, _PAGE, "FC-06", over=LAUNCHES)
def durations(device: Subject, way: LaunchWay) -> None:
    """A duration is kept, or the launch ends with MISSED_DEADLINE; the longest one is kept."""
    held = device.prepare()
    work = held.work()
    launched = way(held, work.request)
    for duration in (0, 1):
        work.fill()
        try:
            ended = launched(duration_ns=duration)
        except HalError as error:
            require(error.status in MISSED, str(error), "MISSED_DEADLINE")
            continue
        if ended.fence is None or settled(ended.fence, device.seconds):
            ended.require_success()
            work.require_output()
        else:
            ended.require_error(*MISSED)
    work.run(lambda: launched(duration_ns=2**63 - 1).require_success())


@rule(GROUP, "reference/protocol.md#fields-that-are-absent", over=LAUNCHES)
def absent_fields(device: Subject, way: LaunchWay) -> None:
    """A launch without a deadline and a duration has none."""
    held = device.prepare()
    work = held.work()
    work.run(lambda: way(held, work.request)(deadline_ns=None, duration_ns=None).require_success())


@rule(GROUP, _PAGE)
def dropped(device: Subject) -> None:
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
    launched.require_success()
    work.require_output()


@rule(GROUP, _PAGE, "RE-04", over=RELAUNCHES)
def one_at_a_time(device: Subject, way: LaunchWay) -> None:
    """An execution that is launched and waits is not run a second time: GENERAL_FAILURE."""
    held = device.prepare()
    work = held.work()
    launched = way(held, work.request)
    signal, pending = create_fence()
    work.fill()
    first = launched([pending.descriptor])
    refused(launched, FAILURE, what="a second launch")
    refused(first.info, FAILURE, what="the info of the first")
    signal.send()
    first.require_success()
    work.require_output()
    work.run(lambda: launched().require_success())


@rule(GROUP, "reference/protocol.md#a-session")
def released_callback(device: Subject) -> None:
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


@rule(GROUP, "reference/protocol.md#a-session", "RE-08", over=RELAUNCHES)
def released_model(device: Subject, way: LaunchWay) -> None:
    """A prepared model that the client releases still serves what was launched."""
    held = device.prepare()
    work = held.work()
    launched = way(held, work.request)
    signal, pending = create_fence()
    work.fill()
    first = launched([pending.descriptor])
    message = prepared_model_pb2.PreparedModelServiceReleaseRequest(prepared_model=held.handle)
    held.session.call(held.session.prepared_model.Release, message)
    signal.send()
    first.require_success()
    work.require_output()
    work.run(lambda: launched().require_success())


@rule(GROUP, _PAGE, "EX-05", "EX-07", "FC-07", "FC-08", "RQ-08", over=LAUNCHES)
def open_output(device: Subject, way: LaunchWay) -> None:
    """A fenced execution with an output of open dimensions is INVALID_ARGUMENT."""
    small = device.small
    held = device.prepare_if_supported(small.of_open_output(), f"{small.name} with an output of open dimensions")
    work = held.work()
    (output,) = work.request.outputs
    work.fill()
    for dimensions in ((), (0, SHAPE[1])):
        for missing in (0, 1):
            place = replace(output.location, length=output.location.length - missing, padding=missing)
            request = replace(work.request, outputs=(replace(output, location=place, dimensions=dimensions),))
            refused_run(way, held, request, INVALID, what=f"dimensions {dimensions}, {missing} bytes too few")
    require(work.is_untouched, "an output", "nothing written")
    known = replace(work.request, outputs=(replace(output, dimensions=SHAPE),))
    work.run(lambda: way(held, known)().require_success())


@rule(GROUP, "reference/protocol.md#when-a-session-ends", over=LAUNCHES)
def end_of_session(device: Subject, way: LaunchWay) -> None:
    """A launch that waits ends with its session: its fence is in error, and nothing is written."""
    held = device.prepare()
    work = held.work()
    signal, pending = create_fence()
    work.fill()
    launched = way(held, work.request)([pending.descriptor])
    assert launched.fence is not None
    held.session.link.close()
    require(not settled(launched.fence, device.seconds), "a signal", "a fence in error")
    signal.send()
    device.require_alive()
    require(work.is_untouched, "an output", "nothing written")


@rule(GROUP, "reference/protocol.md#limits", over=LAUNCHES)
def leaks(device: Subject, way: LaunchWay) -> None:
    """Launches that have ended leave no descriptor in the device's process."""
    held = device.prepare()
    launched = way(held, held.work().request)

    def round_() -> None:
        signal, pending = create_fence()
        first = launched([pending.descriptor])
        signal.send()
        first.require_success()
        held.session.link.drop()

    device.require_no_growth(12, round_, 4)


@rule(GROUP, _PAGE, "FC-11", over=ALL_RUNS)
def memory_left_alone(device: Subject, way: RunWay) -> None:
    """Once an execution has ended, the device leaves the client's memory alone."""
    held = device.prepare()
    work, other = held.work(), held.work()
    run, elsewhere = way(held, work.request), way(held, other.request)
    work.run(run)
    work.fill(2)
    other.run(elsewhere)
    require(work.is_untouched, "an output of an execution that had ended", "nothing written")


@rule(GROUP, _PAGE, "FC-10", over=LAUNCHES)
def failed_run(device: Subject, way: LaunchWay) -> None:
    """An execution that fails puts its fence into error, and is told alike each time; or the launch fails."""
    held = device.prepare_if_supported(gathering(), "GATHER of float32")
    try:
        failed = way(held, gather_request(False).request())()
    except HalError as error:
        require(bool(error.message), "no message", "the reason")
        return
    failed.require_error(*ErrorStatus)
    infos = [failed.info() for _ in range(3)]
    require(bool(infos[0].message), "no message", "the reason")
    require(infos[0] == infos[1] == infos[2], "another answer", "always the same")
    assert failed.fence is not None
    fence = failed.fence.descriptor
    refused(lambda: way(held, gather_request(True).request())([fence]), INVALID, what="a fence in error")
    way(held, gather_request(True).request())().require_success()


@rule(GROUP, _PAGE, "EX-13", "EX-02", "EX-03")
def times(device: Subject) -> None:
    """Times since the launch include those since the fences; without measure_timing both are -1."""
    held = device.prepare()
    work = held.work()
    signal, pending = create_fence()
    measured = held.launch(work.request, [pending.descriptor], measure_timing=True)
    plain = held.launch(held.work().request, [pending.descriptor])
    signal.send()
    for launched in (measured, plain):
        launched.require_success()
        info = launched.info()
        (on, within), (later_on, later) = _times(info.timing_launched), _times(info.timing_fenced)
        found = f"device {on}, driver {within}; {later_on}, {later} since the fences"
        if launched is plain:
            require({on, within, later_on, later} == {-1}, found, "-1")
        else:
            require(
                later_on <= on <= within and later_on <= later <= within, found, "device <= driver, fences <= launch"
            )


def _times(timing: request_pb2.Timing) -> tuple[int, int]:
    return timing.time_on_device_ns, timing.time_in_driver_ns
