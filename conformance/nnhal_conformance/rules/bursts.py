"""Bursts and their channels."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial

from nnhal.errors import HalError
from nnhal.memory import create_ashmem
from nnhal.types import DataLocation, ErrorStatus, RequestArgument
from nnhal.v1 import burst_pb2
from nnhal_conformance.channels import BROKEN, require_numbered
from nnhal_conformance.device import Subject
from nnhal_conformance.rule import INVALID, MISSED, offered, refused, require, rule
from nnhal_conformance.small_models import SmallRequest

GROUP = "bursts"
_PAGE, _CHANNELS = "reference/protocol.md#executions", "reference/protocol.md#channels"
_CALLS = 8


@rule(GROUP, _PAGE, "BU-01", "BU-02", "EX-17")
def cached(device: Subject) -> None:
    """A burst sees new inputs each time, whether pools are cached under tokens or not."""
    held = device.prepare()
    burst, work = held.burst(), held.work()
    for seed, tokens in enumerate(([-1], [0], [0], [2**62], [-1])):
        work.run(partial(burst.execute, work.request, tokens), seed)


@rule(GROUP, _PAGE, "BU-10")
def empty(device: Subject) -> None:
    """A request without anything is INVALID_ARGUMENT, and the channel goes on."""
    held = device.prepare()
    burst, work = held.burst(), held.work()
    message = burst_pb2.BurstServiceExecuteSynchronouslyWithConfigRequest()
    refused(lambda: burst.exchange(burst_pb2.BurstCall(execute_with_config=message)), INVALID)
    work.run(lambda: burst.execute(work.request))


@rule(GROUP, _PAGE, "RE-05")
def run(device: Subject) -> None:
    """A burst runs reusable executions of its prepared model, and refuses others with INVALID_ARGUMENT."""
    held = device.prepare()
    burst, work = held.burst(), held.work()
    bound = held.bind(work.request)
    for seed in range(3):
        work.run(partial(burst.run, bound), seed)
    other = device.prepare(session=held.session)
    foreign = other.bind(other.work().request)
    refused(lambda: burst.run(foreign), INVALID, what="an execution of another prepared model")
    refused(lambda: burst.exchange(burst.call_of(2**62)), INVALID, what="an execution that does not exist")
    work.run(partial(burst.run, bound))


@rule(GROUP, _CHANNELS)
def one_answer_for_each_call(device: Subject) -> None:
    """Each call is answered once, in the order of calls, and nothing comes that was not asked for."""
    held = device.prepare()
    burst, works = held.burst(), [held.work() for _ in range(_CALLS)]
    bounds = [held.bind(work.request) for work in works]
    burst.channel.require_quiet()
    work, bound = works[0], bounds[0]
    work.run(lambda: burst.run(bound))
    burst.channel.require_quiet()
    for seed, each in enumerate(works):
        each.fill(seed)
    for bound in bounds:
        burst.channel.send(burst.call_of(bound.handle).SerializeToString())
    for each in works:
        answer = burst.channel.receive()
        require(answer is not None, "the end of the channel", "an answer")
        assert answer is not None
        burst.decoded(answer.message)
        each.require_output()
    burst.channel.require_quiet()


@rule(GROUP, _CHANNELS, "VR-01")
def malformed(device: Subject) -> None:
    """A datagram that is too long, empty or no call is answered with INVALID_ARGUMENT, and the channel ends."""
    held = device.prepare()
    for message in BROKEN.values():
        held.burst().require_refusal_and_end(message)
    work = held.work()
    burst = held.burst()
    work.run(lambda: burst.execute(work.request))


@rule(GROUP, _PAGE, "BU-03", "BU-04", "BU-05")
def tokens(device: Subject) -> None:
    """A memory token below -1, or another number of tokens than of pools, is INVALID_ARGUMENT."""
    held = device.prepare()
    burst, request = held.burst(), held.work().request
    for given in ([-2], [], [0, 1], [-(2**63)]):
        refused(partial(burst.execute, request, given), INVALID, what=f"tokens {given}")


@rule(GROUP, _PAGE, "BU-06", "BU-07")
def forget(device: Subject) -> None:
    """Releasing memory that is not cached is ignored; a token below -1 is INVALID_ARGUMENT."""
    held = device.prepare()
    burst, work = held.burst(), held.work()
    work.run(lambda: burst.execute(work.request, [3]))
    for token in (3, 3, 12_345, -1):
        burst.forget(token)
    refused(lambda: burst.forget(-2), INVALID, what="token -2")
    work.run(lambda: burst.execute(work.request, [3]))


@rule(GROUP, _PAGE)
def forgotten_memory(device: Subject) -> None:
    """Memory that is forgotten is unmapped, one pool after the other."""
    held = device.prepare()
    burst, pid = held.burst(), held.session.link.peer_pid
    works = [held.work() for _ in range(3)]

    def mapped() -> int:
        return device.resources(pid)["mappings of memory"]

    for token, work in enumerate(works):
        work.run(partial(burst.execute, work.request, [token]))
    most = mapped()
    for token in range(3):
        burst.forget(token)
    device.until(lambda: mapped() < most, lambda: f"got {mapped()} mappings of memory, expected fewer than {most}")


@rule(GROUP, _PAGE, "BU-02")
def token_of_an_input(device: Subject) -> None:
    """Memory that was cached for an input serves an output later."""
    held = device.prepare()
    burst, (first, second) = held.burst(), (held.work(), held.work())
    forth = replace(first.request, outputs=(_in_second_pool(second),), pools=(first.memory, second.memory))
    back = replace(second.request, outputs=(_in_second_pool(first),), pools=(second.memory, first.memory))
    for seed in range(2):
        for (given, made), request, tokens in (((first, second), forth, [0, 1]), ((second, first), back, [1, 0])):
            given.fill(seed)
            made.fill(seed)
            burst.execute(request, tokens)
            made.require_output()


def _in_second_pool(work: SmallRequest) -> RequestArgument:
    (output,) = work.request.outputs
    return replace(output, location=replace(output.location, pool_index=1))


@rule(GROUP, _PAGE)
def side_by_side(device: Subject) -> None:
    """Bursts of one prepared model are called at the same time."""
    held = device.prepare()
    pairs = [(held.burst(), held.work()) for _ in range(3)]
    for seed, (burst, work) in enumerate(pairs):
        work.fill(seed)
        burst.channel.send(burst.call_of(held.bind(work.request).handle).SerializeToString())
    for burst, work in pairs:
        answer = burst.channel.receive()
        require(answer is not None, "the end of the channel", "an answer")
        assert answer is not None
        burst.decoded(answer.message)
        work.require_output()


@rule(GROUP, _PAGE, "QS-07")
def missed(device: Subject) -> None:
    """The answer to a call that has missed its deadline has no result."""
    held = device.prepare()
    burst, bound = held.burst(), held.bind(held.work().request)
    message = burst.channel.answer(burst.call_of(bound.handle, deadline_ns=0).SerializeToString()).message
    answer = burst_pb2.BurstAnswer.FromString(message)
    if answer.status:
        require(ErrorStatus(answer.status) in MISSED, f"{answer}", "MISSED_DEADLINE")
        require(not answer.HasField("result") and not answer.HasField("staging"), f"{answer}", "no result")


@rule(GROUP, _PAGE, "BU-13")
def another_pool(device: Subject) -> None:
    """A request past the end of the memory that is cached under its token is refused, or uses the pool of the call."""
    held = device.prepare()
    burst, work = held.burst(), held.work()
    work.run(lambda: burst.execute(work.request, [1]))
    size = 1 << 20
    far = RequestArgument(DataLocation(0, size - held.small.bytes, held.small.bytes))
    request = replace(work.request, outputs=(far,), pools=(create_ashmem(size),))
    with suppress(HalError):  # it may refuse; that it goes on is what counts
        burst.execute(request, [1])
    work.run(lambda: burst.execute(work.request, [1]))


@rule(GROUP, _PAGE, "BU-12")
def after_release(device: Subject) -> None:
    """A burst works on when its prepared model is released."""
    held = device.prepare()
    burst, work = held.burst(), held.work()
    held.release()
    work.run(lambda: burst.execute(work.request))


@rule(GROUP, _PAGE)
def released_handle(device: Subject) -> None:
    """Releasing a burst drops its handle; its channel works on until the client closes it."""
    held = device.prepare()
    burst, work = held.burst(), held.work()
    message = burst_pb2.BurstServiceReleaseRequest(burst=burst.handle)
    offered(
        lambda: held.session.call(held.session.burst.Release, message),
        "bursts are released by closing their channel",
    )
    work.run(lambda: burst.execute(work.request))


@rule(GROUP, _CHANNELS)
def half_closed(device: Subject) -> None:
    """If the client shuts down its own direction only, what is under way is still answered, and the channel ends."""
    held = device.prepare()
    burst, work = held.burst(), held.work()
    work.fill()
    burst.channel.send(burst.call_of(held.bind(work.request).handle).SerializeToString())
    burst.channel.end_sending()
    answer = burst.channel.receive()
    require(answer is not None, "the end of the channel", "the answer first")
    assert answer is not None
    burst.decoded(answer.message)
    work.require_output()
    burst.channel.require_end()


@rule(GROUP, _CHANNELS)
def numbers(device: Subject) -> None:
    """If the session has agreed on it, the answer has the number of its call, also if the call is refused."""
    held = device.prepare()
    burst, bound = held.burst(), held.bind(held.work().request)
    calls = [burst.call_of(handle).SerializeToString() for handle in (bound.handle, 2**62)]
    require_numbered(held.session, burst.channel, *calls)
