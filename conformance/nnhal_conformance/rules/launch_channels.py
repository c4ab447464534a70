"""Launch channels: reusable executions launched with one datagram each way. What all launches do is in fences."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from nnhal.errors import HalError
from nnhal.fence import Fence, create_fence
from nnhal.v1 import execution_pb2 as wire
from nnhal_conformance.channels import BROKEN, LaunchChannel, require_numbered, settled
from nnhal_conformance.device import Bound, Subject
from nnhal_conformance.rule import FAILURE, INVALID, refused, require, rule
from nnhal_conformance.rules.fences import memory_descriptor
from nnhal_conformance.rules.link import Given
from nnhal_conformance.small_models import SmallRequest

GROUP = "launch-channels"
_PAGE, _LIMITS = "reference/protocol.md#channels", "reference/protocol.md#limits"
_MOST_FENCES = 16


def _open(device: Subject) -> tuple[LaunchChannel, Bound, SmallRequest]:
    held = device.prepare()
    work = held.work()
    return LaunchChannel(held.session), held.bind(work.request), work


@rule(GROUP, _PAGE, "RE-02", "RE-05", "FC-01")
def one_answer_for_each_call(device: Subject) -> None:
    """A launch is answered once, and nothing comes that was not asked for."""
    launches, bound, work = _open(device)
    for seed in range(3):
        work.run(lambda: launches.launch(bound.handle).require_success(), seed)
    launches.channel.require_quiet()


@rule(GROUP, _LIMITS, "FC-02")
def many_fences(device: Subject) -> None:
    """A launch waits for up to 16 fences."""
    launches, bound, work = _open(device)
    signal, pending = create_fence()
    work.fill()
    launched = launches.launch(bound.handle, [pending.descriptor.duplicate() for _ in range(_MOST_FENCES)])
    require(work.is_untouched, "an output before the fence has signalled", "nothing written")
    signal.send()
    launched.require_success()
    work.require_output()


@rule(GROUP, _PAGE, "RQ-13")
def refusals(device: Subject) -> None:
    """Unknown executions and the info of what was not launched here are refused; the channel goes on."""
    launches, bound, work = _open(device)
    refused(lambda: launches.launch(2**62), INVALID, what="an execution that does not exist")
    refused(lambda: launches.info(2**62), INVALID, what="the info of an execution that does not exist")
    refused(lambda: launches.info(bound.handle), FAILURE, what="the info of what was not launched")
    work.run(lambda: launches.launch(bound.handle).require_success())


@rule(GROUP, _PAGE)
def same_executions(device: Subject) -> None:
    """The channels of a session launch the same executions, and tell the same of them."""
    launches, bound, work = _open(device)
    other = LaunchChannel(launches.session)
    for by in (launches, other, launches):
        work.run(partial(_launched, by, bound))
        require(launches.info(bound.handle) == other.info(bound.handle), "another info", "the same on both channels")


def _launched(launches: LaunchChannel, bound: Bound) -> None:
    launches.launch(bound.handle).require_success()


@rule(GROUP, _LIMITS)
def descriptors(device: Subject) -> None:
    """Descriptors that come with a call which takes none are closed."""
    launches, bound, _ = _open(device)
    given = Given()
    for _ in range(3):
        with suppress(HalError):
            launches.exchange([given.fileno()], info=wire.LaunchInfo(execution=bound.handle))
    given.require_closed(device.seconds)


@rule(GROUP, _PAGE)
def malformed(device: Subject) -> None:
    """A datagram that is no call, or has more than 16 descriptors, is answered with LaunchRefused and ends it."""
    launches, bound, work = _open(device)
    for message in BROKEN.values():
        LaunchChannel(launches.session).require_refusal_and_end(message)
    memory = memory_descriptor()
    many = [memory.fileno()] * (_MOST_FENCES + 1)
    message = wire.LaunchCall(launch=wire.Launch(execution=bound.handle)).SerializeToString()
    LaunchChannel(launches.session).require_refusal_and_end(message, many)
    work.run(lambda: launches.launch(bound.handle).require_success())


@rule(GROUP, _PAGE)
def sync(device: Subject) -> None:
    """Enqueued work is visible when the fence of a later Sync has signalled."""
    launches, bound, work = _open(device)

    def enqueue() -> None:
        fence = launches.launch(bound.handle, enqueue=True).fence
        if fence is not None:  # it signals when the work is enqueued
            require(settled(fence, device.seconds), "a fence in error", "its signal")
        _, received = launches.exchange(sync=wire.Sync())
        if received:
            require(settled(Fence.received(received[0]), device.seconds), "a fence in error", "its signal")

    work.run(enqueue)


@rule(GROUP, _PAGE)
def closed_channel(device: Subject) -> None:
    """After the channel is closed, executions that were launched go on until they end."""
    launches, bound, work = _open(device)
    signal, pending = create_fence()
    work.fill()
    fence = launches.launch(bound.handle, [pending.descriptor]).fence
    launches.channel.close()
    signal.send()
    if fence is not None:
        require(settled(fence, device.seconds), "a fence in error", "its signal")
    work.require_output()


@rule(GROUP, "reference/protocol.md#when-a-session-ends")
def end_of_session(device: Subject) -> None:
    """The channel closes when the link does."""
    launches, _, _ = _open(device)
    launches.session.link.close()
    launches.channel.require_end()


@rule(GROUP, _PAGE)
def numbers(device: Subject) -> None:
    """If the session has agreed on it, the answer has the number of its call, also if the call is refused."""
    launches, bound, _ = _open(device)
    asked = [wire.LaunchCall(info=wire.LaunchInfo(execution=handle)) for handle in (bound.handle, 2**62)]
    require_numbered(launches.session, launches.channel, *(call.SerializeToString() for call in asked))
