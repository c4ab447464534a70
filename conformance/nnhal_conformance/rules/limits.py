"""Limits that a device enforces, deaths of its clients, and what may kill it: these come last."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from nnhal.errors import HalError
from nnhal.fence import Fence, create_fence
from nnhal.memory import map_file
from nnhal.v1 import burst_pb2, device_pb2, execution_pb2, link_pb2, memory_pb2, model_pb2, request_pb2, types_pb2
from nnhal.v1 import prepared_model_pb2 as prepared_pb2
from nnhal_conformance.channels import Launch, settled
from nnhal_conformance.device import Subject
from nnhal_conformance.device_buffers import DeviceBuffer
from nnhal_conformance.rule import (
    FAILURE,
    FULL,
    INVALID,
    NotOfferedError,
    UnservedMethodError,
    all_refused,
    refused,
    require,
    rule,
)
from nnhal_conformance.rules.buffer_copies import shrinking
from nnhal_conformance.rules.link import Given
from nnhal_conformance.rules.pools import unsealed_file
from nnhal_conformance.session import RawLink
from nnhal_conformance.small_models import SmallRequest
from nnhal_conformance.victims import die_in_calls

GROUP = "limits"
_PAGE = "reference/protocol.md#limits"
_MOST_FENCED = 256
_BURSTS = 24


@rule(GROUP, _PAGE)
def long_lists(device: Subject) -> None:
    """A list in a request that is longer than docs/reference/limits.md allows is INVALID_ARGUMENT."""
    held = device.prepare()
    session, nothing = held.session, request_pb2.RequestArgument()
    pool = request_pb2.RequestMemoryPool(token=1)
    hints = [types_pb2.TokenValuePair(token=number) for number in range(1025)]
    names = [types_pb2.ExtensionNameAndPrefix()] * 1025
    model = model_pb2.Model(pools=[memory_pb2.Memory()] * 4097)
    ask = device_pb2.GetSupportedOperationsRequest(model=model)
    bound = held.bind(held.work().request)
    fences = execution_pb2.ExecutionServiceExecuteFencedRequest(
        execution=bound.handle, wait_for_descriptor_ids=[1] * 257
    )
    roles = [device_pb2.BufferRole()] * 4097
    of_buffers: dict[str, Any] = {"input roles": {"input_roles": roles}, "output roles": {"output_roles": roles}}
    of_buffers["prepared models"] = {"prepared_models": [1] * 4097}

    def allocate(**lists: Any) -> object:
        try:
            return session.call(session.device.Allocate, device_pb2.AllocateRequest(**lists))
        except UnservedMethodError as error:
            raise HalError(INVALID, str(error)) from error

    calls: dict[str, Callable[[], object]] = {
        "4,097 pools of a request": lambda: held.execute(request_pb2.Request(pools=[pool] * 4097)),
        "65,537 inputs": lambda: held.execute(request_pb2.Request(inputs=[nothing] * 65_537)),
        "65,537 outputs": lambda: held.execute(request_pb2.Request(outputs=[nothing] * 65_537)),
        "1,025 hints": lambda: held.execute(held.work().request, execution_hints=hints),
        "1,025 extensions": lambda: held.execute(held.work().request, extension_name_to_prefix=names),
        "4,097 pools of a model": lambda: session.call(session.device.GetSupportedOperations, ask),
        "1,025 hints of a reusable execution": lambda: held.bind(held.work().request, execution_hints=hints),
        **{f"4,097 {what} of a buffer": partial(allocate, **lists) for what, lists in of_buffers.items()},
        "257 fences": lambda: session.call(session.execution.ExecuteFenced, fences),
    }
    all_refused(calls, INVALID)


@rule(GROUP, _PAGE)
def fenced_executions(device: Subject) -> None:
    """A session has 256 fenced executions that have not ended; one more is RESOURCE_EXHAUSTED_TRANSIENT."""
    held = device.prepare()
    request = held.session.request(held.work().request)
    begin, pending = create_fence()
    fences: list[Fence | None] = []
    try:
        while len(fences) <= _MOST_FENCED:
            fences.append(held.launch(request, [pending.descriptor]).fence)
    except HalError as error:
        require(error.status == FULL, str(error), "RESOURCE_EXHAUSTED_TRANSIENT")
    require(len(fences) <= _MOST_FENCED, f"{len(fences)} launches that wait", f"{_MOST_FENCED} at most")
    work = held.work()
    work.run(lambda: held.execute(work.request))
    begin.send()

    def launch() -> None:
        held.launch(work.request).end()

    device.until(lambda: _succeeds(lambda: work.run(launch)), lambda: "no launch works after the others have ended")


def _succeeds(call: Callable[[], object]) -> bool:
    try:
        call()
    except HalError as error:
        require(error.status == FULL, str(error), "RESOURCE_EXHAUSTED_TRANSIENT while launches end")
        return False
    return True


@rule(GROUP, "reference/protocol.md#channels")
def callers_that_do_not_read(device: Subject) -> None:
    """A client that calls without reading its answers is served no further, and no other client waits for it."""
    held = device.prepare()
    work = held.work()
    burst = held.burst()
    call = burst.call_of(held.bind(work.request).handle).SerializeToString()
    with socket.socket(fileno=os.dup(burst.channel.fileno())) as sending:
        sending.settimeout(0.2)
        try:
            for _ in range(100_000):
                sending.send(call)
        except OSError:  # the socket is full, or the device has ended the channel
            pass
    other = device.prepare()
    work = other.work()
    work.run(lambda: other.execute(work.request))
    held.session.close()
    work.run(lambda: other.execute(work.request))


@rule(GROUP, "reference/protocol.md#when-a-session-ends")
def killed_clients(device: Subject) -> None:
    """A client that is killed in the middle of a run ends its session: its descriptors and mappings are released."""

    def round_() -> None:
        held = device.prepare()
        work = held.work()
        burst, bound = held.burst(), held.bind(work.request)
        _, pending = create_fence()
        with suppress(NotOfferedError):
            DeviceBuffer(held).fill(1)
        launched: Launch | None = None
        with suppress(NotOfferedError):
            launched = held.launch(held.work().request, [pending.descriptor])
        call = burst.call_of(bound.handle).SerializeToString()
        die_in_calls(held.session, [(burst.channel, call)], answers=1)
        if launched is not None and launched.fence is not None:
            require(not settled(launched.fence, device.seconds), "a signal", "fences of the client in error")
        held.session.close()

    device.require_no_growth(4, round_, 3)
    device.require_alive()


@rule(GROUP, "reference/protocol.md#limits")
def many_bursts(device: Subject) -> None:
    """Bursts that are not taken are closed when they are released, or their session ends."""
    held = device.prepare()
    message = prepared_pb2.ConfigureExecutionBurstRequest(prepared_model=held.handle)
    stub = held.session.prepared_model

    def round_() -> None:
        for _ in range(_BURSTS // 4):
            made = held.session.call(stub.ConfigureExecutionBurst, message)
            try:
                held.session.call(held.session.burst.Release, burst_pb2.BurstServiceReleaseRequest(burst=made.burst))
            except UnservedMethodError:
                held.session.take_socket(made.channel_descriptor_id, "the burst's channel").close()

    device.require_no_growth(4, round_, _BURSTS // 3)


@rule(GROUP, "reference/protocol.md#memory")
def truncated_file(device: Subject) -> None:
    """A file that is shortened between executions or during them is GENERAL_FAILURE at worst, and kills no device."""
    held = device.prepare()
    size = SmallRequest.bytes_of(held.small)
    file = unsealed_file(size)
    work = held.work(memory=map_file(file, size))
    burst, bound = held.burst(), held.bind(work.request)
    ways: list[Callable[[], object]] = [bound.run, partial(burst.run, bound), partial(burst.execute, work.request, [0])]
    for left in (0, held.small.bytes - 1, size - 1):
        for run in ways:
            work.run(run)
        os.ftruncate(file.fileno(), left)
        for run in ways:
            try:
                run()
            except HalError as error:
                require(error.status in (FAILURE, INVALID), str(error), "GENERAL_FAILURE, INVALID_ARGUMENT or success")
        os.ftruncate(file.fileno(), size)
    shrinking(file.fileno(), size, partial(burst.run, bound))
    work.run(partial(burst.run, bound))
    device.require_alive()


def _filled(link: RawLink) -> Given:
    """Put descriptors until the client may have no more. Raises NotOfferedError if there is hardly a limit."""
    if link.welcome.max_descriptors_per_session > 1 << 16:
        raise NotOfferedError("a session may have as many descriptors as it likes")
    given = Given()
    for count in (16, 1):
        while link.ask([given.fileno()] * count, put=link_pb2.Put(count=count)).WhichOneof("reply") == "put":
            pass
    return given


@rule(GROUP, _PAGE)
def descriptors_of_answers(device: Subject) -> None:
    """A call whose answer has a descriptor, for a session with no room for it, is RESOURCE_EXHAUSTED_TRANSIENT: nothing
    runs, and nothing is left of it.
    """
    held, work = device.prepare(), device.prepare().work()
    request = held.session.request(work.request)
    work.run(lambda: held.launch(request).require_success())
    work.fill()
    given = _filled(held.session.link)
    refused(lambda: held.launch(request), FULL, what="a launch")
    refused(held.burst, FULL, what="a burst")
    require(work.is_untouched, "an output", "nothing written")
    held.session.link.close()
    given.require_closed(device.seconds)


@rule(GROUP, _PAGE, "FC-02")
def most_fences(device: Subject) -> None:
    """A launch over gRPC waits for up to 256 fences, of which some may be the same."""
    held = device.prepare()
    work = held.work()
    signal, pending = create_fence()
    work.fill()
    fences = [pending.descriptor.duplicate() for _ in range(40)] + [pending.descriptor] * 216
    launched = held.launch(work.request, fences)
    require(work.is_untouched, "an output before the fence has signalled", "nothing written")
    signal.send()
    launched.require_success()
    work.require_output()
