"""Making stages of executions: the sockets that a client hands over are checked and served."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnhal.arrays import Array
from nnhal.descriptor import Descriptor
from nnhal.errors import invalid_argument
from nnhal.exhaustion import host_failure
from nnhal.link import Channel
from nnhal.link.channel import channel_from, is_channel
from nnhal.memory import validate_pool
from nnhal.memory.mapping import Region
from nnhal.types import Ashmem
from nnhal.v1 import chain_pb2 as wire
from nnhal_devices.host.channels.stage import Stage, StageSockets
from nnhal_devices.host.sessions.client_session import ClientSession

MAX_BELLS = 16
"""Bells in each list of a stage of a wired chain."""
_MAX_NAME_CHARACTERS = 200
_RUN_NUMBER_BYTES = 8


def wire_step(client: ClientSession, request: wire.WireStepRequest) -> int:
    """Make an execution a stage, serve it, and return its handle. The descriptors are taken from the session.

    Raises INVALID_ARGUMENT if the execution or a descriptor is unknown, a descriptor is of the wrong kind, the bells do
    not make a stage, or an output has no known size; RESOURCE_EXHAUSTED_TRANSIENT if the session has too many sockets.
    """
    handed = _HandedOver(client, request)
    execution = client.execution(request.execution)
    execution.require_known_outputs(but_growing=True)
    if request.step < 0 or len(request.name) > _MAX_NAME_CHARACTERS:
        invalid_argument(
            f"step {request.step} with a name of {len(request.name)} characters, expected a step of 0 or more and at "
            f"most {_MAX_NAME_CHARACTERS} characters"
        )
    sockets, cancelled = handed.sockets(), handed.cancelled()
    for socket in sockets.all:
        client.session.shares.descriptors.charge_for(socket)
    stage = Stage(execution, request.execution, request.step, request.name, sockets, cancelled)
    number = client.add_runner(stage)
    try:
        stage.serve(client)
    except BaseException:
        client.release(number)
        raise
    return number


class _HandedOver:
    """The descriptors of a request, taken from the session."""

    def __init__(self, client: ClientSession, request: wire.WireStepRequest) -> None:
        """Raises INVALID_ARGUMENT if one is unknown."""
        lists = (
            request.in_bell_descriptor_ids,
            request.out_bell_descriptor_ids,
            request.start_bell_descriptor_ids,
            request.end_bell_descriptor_ids,
        )
        single = (request.calls_descriptor_id, request.answers_descriptor_id, request.cancelled_descriptor_id)
        numbers = [*(number for each in lists for number in each), *(number for number in single if number)]
        claimed = dict(zip(numbers, client.descriptors.claim(numbers), strict=True))
        self._in, self._out, self._start, self._ends = ([claimed[number] for number in each] for each in lists)
        self._calls, self._answers, self._cancelled = (claimed.get(number) for number in single)

    def sockets(self) -> StageSockets:
        """Return the sockets of the stage. Raises INVALID_ARGUMENT."""
        counts = {
            "in-bells": len(self._in),
            "out-bells": len(self._out),
            "start bells": len(self._start),
            "end bells": len(self._ends),
        }
        if max(counts.values()) > MAX_BELLS:
            invalid_argument(f"a stage with {_listed(counts)}, expected at most {MAX_BELLS} of each")
        if bool(self._in) == (self._calls is not None) or bool(self._out) == (self._answers is not None):
            invalid_argument(
                f"a stage with {_listed(counts)}, {_said(self._calls, 'calls')} and {_said(self._answers, 'answers')}, "
                "expected either in-bells or calls, and either out-bells or answers"
            )
        if (self._start and self._calls is None) or (self._ends and self._answers is None):
            invalid_argument("start bells are the entry's, which has the calls; end bells the exit's, which answers")
        watched = [_duplicate(descriptor) for descriptor in (*self._out, *self._start)]
        return StageSockets(
            _channels(self._in, "an in-bell"),
            _channels(self._out, "an out-bell"),
            _channels(self._start, "a start bell"),
            _channels(self._ends, "an end bell"),
            _channels(watched, "a bell"),
            None if self._calls is None else _channel(self._calls, "the socket of calls"),
            None if self._answers is None else _channel(self._answers, "the socket of answers"),
        )

    def cancelled(self) -> Array | None:
        """Return the number of the last cancelled run as it is at any moment. Raises INVALID_ARGUMENT."""
        if self._cancelled is None:
            return None
        memory = Ashmem(self._cancelled, _RUN_NUMBER_BYTES)
        validate_pool(memory, "the number of the cancelled run")
        try:
            number: Array = Region(memory.descriptor, memory.size, writable=False).bytes().view(np.int64)
        except (OSError, ValueError) as error:
            raise host_failure("the number of the cancelled run cannot be mapped", error) from error
        return number


def _duplicate(descriptor: Descriptor) -> Descriptor:
    try:
        return descriptor.duplicate()
    except OSError as error:
        raise host_failure("a descriptor for the stage", error) from error


def _channels(descriptors: Sequence[Descriptor], what: str) -> tuple[Channel, ...]:
    return tuple(_channel(descriptor, what) for descriptor in descriptors)


def _channel(descriptor: Descriptor, what: str) -> Channel:
    """Make a channel of a socket. Raises INVALID_ARGUMENT if it is none that keeps messages apart."""
    if is_channel(descriptor):
        return channel_from(descriptor)
    invalid_argument(f"{what} is no unix socket of type SOCK_SEQPACKET")


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _said(descriptor: Descriptor | None, what: str) -> str:
    return f"{'no' if descriptor is None else 'a'} socket of {what}"
