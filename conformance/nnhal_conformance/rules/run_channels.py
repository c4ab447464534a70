"""Run channels: one execution, run by another process than the session's."""

from __future__ import annotations

from contextlib import suppress

from nnhal.errors import HalError
from nnhal.v1 import execution_pb2
from nnhal_conformance.channels import BROKEN, BurstChannel, require_numbered
from nnhal_conformance.device import Bound, Subject
from nnhal_conformance.rule import INVALID, offered, refused, require, rule
from nnhal_conformance.rules.link import Given
from nnhal_conformance.small_models import SmallRequest

GROUP = "run-channels"
_PAGE = "reference/protocol.md#run-channels"


def _open(device: Subject) -> tuple[BurstChannel, Bound, SmallRequest]:
    held = device.prepare()
    work = held.work()
    bound = held.bind(work.request)
    return bound.run_channel(), bound, work


@rule(GROUP, _PAGE, "RE-05")
def run(device: Subject) -> None:
    """A run channel runs its execution: one answer for each call, after the output is written."""
    channel, bound, work = _open(device)
    for seed in range(4):
        work.run(lambda: channel.run(bound), seed)
        channel.channel.require_quiet()


@rule(GROUP, _PAGE)
def nothing_else(device: Subject) -> None:
    """All other calls on it are INVALID_ARGUMENT, and it goes on."""
    channel, bound, work = _open(device)
    refused(lambda: channel.execute(work.request), INVALID, what="a request")
    refused(lambda: channel.forget(1), INVALID, what="a release of memory")
    refused(lambda: channel.exchange(channel.call_of(bound.handle + 1)), INVALID, what="another execution")
    refused(lambda: channel.run(bound, deadline_ns=-2), INVALID, what="deadline -2")
    work.run(lambda: channel.run(bound))


@rule(GROUP, "reference/protocol.md#channels")
def malformed(device: Subject) -> None:
    """A datagram that is no call is answered with INVALID_ARGUMENT and ends the channel, not the execution."""
    channel, bound, work = _open(device)
    channel.channel.close()
    for message in BROKEN.values():
        bound.run_channel().require_refusal_and_end(message)
    work.run(bound.run)


@rule(GROUP, _PAGE)
def revoked(device: Subject) -> None:
    """It closes with its execution, with its session, and when another one is opened for the execution."""
    channel, bound, work = _open(device)
    second = bound.run_channel()
    channel.channel.require_end()
    work.run(lambda: second.run(bound))
    bound.release()
    second.channel.require_end()
    third, bound, _ = _open(device)
    bound.session.link.close()
    third.channel.require_end()


@rule(GROUP, _PAGE)
def descriptors(device: Subject) -> None:
    """Descriptors that come with a call are closed."""
    channel, bound, work = _open(device)
    given = Given()
    call = channel.call_of(bound.handle).SerializeToString()
    for _ in range(3):
        work.run(lambda: channel.decoded(channel.channel.answer(call, [given.fileno()] * 3).message))
    given.require_closed(device.seconds)


@rule(GROUP, _PAGE)
def leaks(device: Subject) -> None:
    """Channels that others have replaced leave no descriptor in the device's process."""
    _, bound, work = _open(device)

    def round_() -> None:
        channel = bound.run_channel()
        work.run(lambda: channel.run(bound))
        channel.channel.close()

    device.require_no_growth(12, round_, 4)


@rule(GROUP, _PAGE)
def usage(device: Subject) -> None:
    """GetRunChannelUsage counts runs that succeeded and that failed, and closes the channel if asked to."""
    channel, bound, work = _open(device)
    for _ in range(2):
        work.run(lambda: channel.run(bound))

    def counted(close: bool) -> execution_pb2.GetRunChannelUsageResponse:
        message = execution_pb2.GetRunChannelUsageRequest(execution=bound.handle, close=close)
        return bound.session.call(bound.session.execution.GetRunChannelUsage, message)

    usage = offered(lambda: counted(False), "statistics lack direct runs")
    require((usage.runs, usage.failed_runs) == (2, 0), f"{usage.runs} and {usage.failed_runs} failed", "2 and 0")
    failed = usage.failed_runs
    with suppress(HalError):
        channel.run(bound, deadline_ns=1)
        failed -= 1  # it has not failed, and counts as a run
    require(counted(False).failed_runs == failed + 1, f"{counted(False)}", "the run that has failed")
    require(counted(True).duration_ns > 0, "no time", "the time that runs have taken")
    channel.channel.require_end()
    fresh = device.prepare()
    bound = fresh.bind(fresh.work().request)
    require(not counted(False).ListFields(), f"{counted(False)}", "nothing of an execution without a run channel")


@rule(GROUP, "reference/protocol.md#channels")
def numbers(device: Subject) -> None:
    """If the session has agreed on it, the answer has the number of its call, also if the call is refused."""
    channel, bound, _ = _open(device)
    calls = [channel.call_of(handle).SerializeToString() for handle in (bound.handle, bound.handle + 1)]
    require_numbered(bound.session, channel.channel, *calls)
