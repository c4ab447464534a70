"""Sessions: what belongs to one, and what its end releases."""

from __future__ import annotations

import os
from collections.abc import Callable

from nnhal.errors import DeadObjectError, HalError, TransportError
from nnhal.fence import create_fence
from nnhal.link import SESSION_METADATA
from nnhal.v1 import backend_pb2, burst_pb2, execution_pb2
from nnhal.v1 import fenced_execution_callback_pb2 as callback_pb2
from nnhal.v1 import prepared_model_pb2 as prepared_pb2
from nnhal_conformance.channels import BurstChannel, settled
from nnhal_conformance.device import Bound, Prepared, Subject, supported
from nnhal_conformance.rule import INVALID, all_refused, offered, require, rule
from nnhal_conformance.session import DeviceSession
from nnhal_conformance.small_models import small_models

GROUP = "sessions"
_END = "reference/protocol.md#when-a-session-ends"
_ROUNDS, _SPARE = 8, 4
Release = Callable[[], object]


def _counts(session: DeviceSession) -> bool:
    """The token of a session counts: a call that needs one, and succeeds with it, is not refused."""
    try:
        supported(session, small_models()[0].model)
    except DeadObjectError:
        raise
    except (HalError, TransportError):
        return False
    return True


@rule(GROUP, "reference/protocol.md#a-session")
def token(device: Subject) -> None:
    """A call that makes or uses something is refused without the token of an open link."""
    session = device.session()
    require(_counts(session), "a refusal with the token of an open link", "success")
    for what, metadata in {
        "no token": (),
        "a token that was never given": ((SESSION_METADATA, "f" * 32),),
    }.items():
        session.metadata = metadata
        require(not _counts(session), f"success with {what}", "a refusal")


@rule(GROUP, _END)
def end(device: Subject) -> None:
    """The token of a link that has closed is refused."""
    session, other = device.session(), device.session()
    other.metadata = session.metadata
    require(_counts(other), "a refusal with the token of an open link", "success")
    session.link.close()
    device.until(lambda: not _counts(other), lambda: "the token counts after the link has closed, expected a refusal")


@rule(GROUP, "reference/protocol.md#a-session")
def handles_of_others(device: Subject) -> None:
    """A handle is valid in its own session only, and unknown ones are INVALID_ARGUMENT."""
    held = device.prepare()
    bound = held.bind(held.work().request)
    other = device.session()
    stranger = device.prepare(session=other)
    request = held.work().request
    all_refused(
        {
            "a prepared model of another session": lambda: Prepared(other, held.small, held.handle).execute(request),
            "an execution of another session": lambda: Bound(stranger, bound.handle).run(),
            "a prepared model that does not exist": lambda: Prepared(other, held.small, 2**62).execute(request),
            "an execution that does not exist": lambda: Bound(stranger, 2**62).run(),
        },
        INVALID,
    )


@rule(GROUP, _END)
def end_of_channels(device: Subject) -> None:
    """The channels of a session close when its link does."""
    held = device.prepare()
    burst = held.burst()
    held.session.link.close()
    burst.channel.require_end()


@rule(GROUP, "reference/protocol.md#fences")
def end_of_fences(device: Subject) -> None:
    """Launches that wait end when the link closes, and their fences are in error."""
    held = device.prepare()
    _, pending = create_fence()
    launched = held.launch(held.work().request, [pending.descriptor])
    require(launched.fence is not None, "no fence of a launch that waits", "a fence")
    held.session.link.close()
    assert launched.fence is not None
    require(not settled(launched.fence, device.seconds), "a signal", "a fence in error")


@rule(GROUP, _END)
def a_fork(device: Subject) -> None:
    """A session lasts as long as any process holds the link open."""
    link = device.raw_link()
    copy = os.dup(link.fileno())
    session = device.session()
    session.metadata = ((SESSION_METADATA, link.welcome.session_token),)
    link.close()
    try:
        require(_counts(session), "a refusal though the link is open", "success")
    finally:
        os.close(copy)
    device.until(lambda: not _counts(session), lambda: "the token counts after the last end has closed")


@rule(GROUP, _END)
def leaks(device: Subject) -> None:
    """Sessions that end leave no descriptor and no mapping in the device's process."""

    def round_() -> None:
        with DeviceSession(device.endpoint, device.seconds) as session:
            held = device.prepare(session=session)
            work = held.work()
            bound = held.bind(work.request)
            work.run(bound.run)
            burst: BurstChannel = held.burst()
            work.run(lambda: burst.execute(work.request, [1]))

    device.require_no_growth(_ROUNDS, round_, _SPARE)


@rule(GROUP, "reference/protocol.md#a-session")
def leaks_of_calls(device: Subject) -> None:
    """Objects that a client releases leave no descriptor and no mapping, though the session goes on."""
    held = device.prepare()

    def round_() -> None:
        work = held.work()
        bound = held.bind(work.request)
        work.run(bound.run)
        burst = held.burst()
        work.run(lambda: burst.execute(work.request, [1]))
        burst.channel.close()
        bound.release()
        held.session.link.drop()

    device.require_no_growth(_ROUNDS, round_, _SPARE)


@rule(GROUP, "reference/protocol.md#a-session")
def untaken(device: Subject) -> None:
    """What is released takes along the descriptors that it has offered and nobody has taken; dropping them first is
    allowed.
    """
    held = device.prepare()
    session = held.session
    request = session.request(held.work().request)
    bound = held.bind(request)

    def count() -> int:
        return session.call(session.backend.GetUsage, backend_pb2.GetUsageRequest()).descriptors

    def burst() -> tuple[int, Release]:
        message = prepared_pb2.ConfigureExecutionBurstRequest(prepared_model=held.handle)
        made = session.call(session.prepared_model.ConfigureExecutionBurst, message)
        release = burst_pb2.BurstServiceReleaseRequest(burst=made.burst)
        return made.channel_descriptor_id, lambda: session.call(session.burst.Release, release)

    def launch() -> tuple[int, Release]:
        message = prepared_pb2.PreparedModelServiceExecuteFencedWithConfigRequest(
            prepared_model=held.handle, request=request, deadline_ns=-1, duration_ns=-1
        )
        made = session.call(session.prepared_model.ExecuteFencedWithConfig, message).result
        release = callback_pb2.FencedExecutionCallbackServiceReleaseRequest(callback=made.callback)
        return made.sync_fence_descriptor_id, lambda: session.call(session.callback.Release, release)

    def run_channel(execution: Bound) -> int:
        message = execution_pb2.OpenRunChannelRequest(execution=execution.handle)
        return session.call(session.execution.OpenRunChannel, message).channel_descriptor_id

    def own_run_channel() -> tuple[int, Release]:
        own = held.bind(request)
        return run_channel(own), own.release

    def closed_run_channel() -> tuple[int, Release]:
        close = execution_pb2.GetRunChannelUsageRequest(execution=bound.handle, close=True)
        return run_channel(bound), lambda: session.call(session.execution.GetRunChannelUsage, close)

    def replaced_run_channel() -> tuple[int, Release]:
        return run_channel(bound), lambda: session.take_socket(run_channel(bound), "the run channel")

    offered(count, "descriptors that a session has are not counted")
    before = count()
    for what, offer in {
        "a burst": burst,
        "a launch": launch,
        "a run channel": own_run_channel,
        "a run channel that is closed": closed_run_channel,
        "a run channel that is replaced": replaced_run_channel,
    }.items():
        for is_dropped in (False, True):
            number, release = offer()
            require(count() == before + 1, f"{count()} descriptors with {what}", f"{before + 1}")
            if is_dropped:
                session.link.drop(number)
            release()
            require(count() == before, f"{count()} descriptors after {what}", f"{before}")
