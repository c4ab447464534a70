"""Serving a launch channel: reusable executions launched with one datagram each way."""

from __future__ import annotations

from typing import ClassVar

from google.protobuf.message import DecodeError

from nnhal.codec import info_to_wire, nanoseconds
from nnhal.descriptor import Descriptor
from nnhal.errors import HalError, general_failure
from nnhal.fence import Fence
from nnhal.link import ProtocolError
from nnhal.shares import act_as_before, act_for, tenant
from nnhal.types import ErrorStatus
from nnhal.v1 import execution_pb2 as wire
from nnhal.v1 import types_pb2
from nnhal_devices.host.runs.launcher import Launcher, fences_from
from nnhal_devices.host.runs.launches import FencedExecutionCallback
from nnhal_devices.host.sessions.client_session import ClientSession
from nnhal_hosting.polling import Work
from nnhal_hosting.rpc import answered_error


def serve_launches(launcher: Launcher, client: ClientSession) -> int:
    """Open a launch channel for a client and return the id of the client's end.

    It is served until either side closes it; until then the client's session owns it.
    """
    channel, theirs = client.make_channel()
    server = LaunchServer(launcher, client)
    handle = client.add(server)
    try:
        number = client.descriptors.offer(theirs, owner=handle)
        client.serve_launches(channel, "launches", server.answer, _encode_refusal, lambda: server.close(handle))
    except BaseException:
        client.release(handle)
        raise
    return number


class LaunchServer:
    """The device's end of a launch channel."""

    kind: ClassVar[str] = "launch channel"

    def __init__(self, launcher: Launcher, client: ClientSession) -> None:
        self._launcher = launcher
        self._client = client
        self._tenant = tenant()
        self._enqueued = launcher.enqueued()

    def close(self, handle: int) -> None:
        """End with the channel. ``handle`` is that of this server in the client's session."""
        self._client.release(handle)
        if self._enqueued is not None:
            self._enqueued.close()

    def answer(self, message: bytes, descriptors: list[Descriptor]) -> tuple[bytes, list[Descriptor], Work | None]:
        """Answer one call: the answer, its descriptors, and the work that is left. Raises ProtocolError."""
        call = _parse(message)
        before = act_for(self._tenant)
        try:
            match call.WhichOneof("call"):
                case "launch":
                    fences, work = self._launch(call.launch, _fences_from(descriptors))
                    return _LAUNCHED, fences, work
                case "sync":
                    fence, sync = self._launcher.sync(_fences_from(descriptors), self._client, self._enqueued)
                    return _LAUNCHED, [fence.descriptor], sync
                case "info":
                    return self._info(call.info), [], None
                case _:
                    raise ProtocolError("a LaunchCall without a call, expected launch, info or sync")
        except ProtocolError:
            raise
        except Exception as error:
            # Nothing here may refer to the error, whose frames refer to the descriptors.
            return _encode_error(self._answered(error)), [], None
        finally:
            act_as_before(before)

    def _answered(self, error: Exception) -> HalError:
        return answered_error(error, "a call on a launch channel failed", client=self._client.session.title)

    def _launch(self, launch: wire.Launch, fences: list[Fence]) -> tuple[list[Descriptor], Work | None]:
        execution = self._client.execution(launch.execution)

        def answer(callback: FencedExecutionCallback, fence: Fence | None) -> list[Descriptor]:
            execution.launched = callback
            return [fence.descriptor] if fence else []

        enqueued = self._enqueued if launch.enqueue else None
        deadline_ns, duration_ns = nanoseconds(launch, "deadline_ns"), nanoseconds(launch, "duration_ns")
        return self._launcher.launch(execution, fences, deadline_ns, duration_ns, self._client, answer, enqueued)

    def _info(self, info: wire.LaunchInfo) -> bytes:
        callback = self._client.execution(info.execution).launched
        if callback is None:
            general_failure(f"execution {info.execution} was not launched on a launch channel")
        return wire.LaunchAnswer(info=info_to_wire(callback.info())).SerializeToString()


def _fences_from(descriptors: list[Descriptor]) -> list[Fence]:
    """The fences that came with a call, in whose datagram they have no other name than their place."""
    fences = fences_from(descriptors)
    for place, fence in enumerate(fences):
        fence.name = f"fence {place} of the call"
    return fences


def _parse(message: bytes) -> wire.LaunchCall:
    try:
        return wire.LaunchCall.FromString(message)
    except DecodeError as error:
        raise ProtocolError(f"{len(message)} bytes that are no LaunchCall") from error


def _encode_error(error: HalError) -> bytes:
    refused = wire.LaunchRefused(
        status=types_pb2.ErrorStatus.ValueType(error.status), message=error.message[:_MAX_ERROR_CHARACTERS]
    )
    return wire.LaunchAnswer(refused=refused).SerializeToString()


def _encode_refusal(message: str) -> bytes:
    return _encode_error(HalError(ErrorStatus.INVALID_ARGUMENT, message))


_MAX_ERROR_CHARACTERS = 2000
_LAUNCHED = wire.LaunchAnswer(launch=wire.LaunchDone()).SerializeToString()
