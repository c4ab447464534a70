"""Bind, Unbind and Run, and the channels on which bindings run: RunCall in, RunAnswer out, in lockstep."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import grpc
from google.protobuf.message import DecodeError

from nnhal.codec import memory_from_wire, nanoseconds
from nnhal.codec.bounds import MAX_ARGUMENTS, MAX_POOLS, at_most
from nnhal.codec.lengths import lengths_from_wire
from nnhal.descriptor import Descriptor
from nnhal.errors import HalError, NnhalError, invalid_argument
from nnhal.link import ProtocolError
from nnhal.types import ErrorStatus
from nnhal.types.layout import Dimensions
from nnhal.types.memory import NOWHERE
from nnhal.v1 import framework_pb2 as wire
from nnhal.v1 import types_pb2
from nnhal_hosting.logs import get_logger
from nnhal_hosting.rpc import answers, defect
from nnhal_service.native.convert import (
    binding_from_wire,
    gone_is_unavailable,
    hints_of,
    insufficient_to_wire,
    outputs_to_wire,
    report_to_wire,
)
from nnhal_service.native.refusals import refused_as_hal
from nnhal_service.native.session import NativeSession, NativeSessions, SessionBinding
from nnhal_service.runtime import ExecutionContext, LoadedModel, OutputTooSmallError, TensorBinding
from nnhal_service.runtime.memory.domains import AllocatedMemory
from nnhal_service.runtime.run.cancellation import CancelledRunError, RunCancellation
from nnhal_service.runtime.run.deadlines import run_by_deadline

MAX_RUN_CHANNELS = 64
"""Run channels that one session may have. Each takes a descriptor of its device."""
_MAX_ERROR_CHARACTERS = 2000
_CANCELLED = "the run was cancelled"
_log = get_logger(__name__)


class BindingServicer:
    """The part of FrameworkService (framework.proto) that binds models to memory and runs them."""

    _sessions: NativeSessions
    _run_channels: int

    @answers
    def Bind(self, request: wire.BindRequest, context: grpc.ServicerContext) -> wire.BindResponse:
        session = self._sessions.of(context)
        session.intake.require_open()
        with ExitStack() as undo:
            binding, channel = _bind(session, request, undo)
            handle = session.own(binding, undo)
            answer = partial(_answer, binding.context, session, [tensor.name for tensor in request.inputs])
            session.serve(binding.channel, "binding", answer, _protocol_refusal, partial(session.unbind, handle))
            number = session.descriptors.offer(channel, owner=handle)
            run_channels: Sequence[wire.RunChannel] = ()
            if request.wants_run_channel:
                run_channels = _open_run_channels(session, binding, handle, self._run_channels, request.takes_turns)
            undo.pop_all()
        return wire.BindResponse(
            binding=handle,
            channel_descriptor_id=number,
            run_channel=run_channels[0] if run_channels else None,
            odd_run_channel=run_channels[1] if len(run_channels) > 1 else None,
            outputs=outputs_to_wire(binding.context.settled),
            insufficient_outputs=outputs_to_wire(binding.context.insufficient),
        )

    @answers
    def Run(self, request: wire.RunRequest, context: grpc.ServicerContext) -> wire.RunResponse:
        session = self._sessions.of(context)
        binding = session.binding(request.binding)
        session.admit_run()
        cancellation = RunCancellation()
        context.add_callback(cancellation.cancel)  # called at its end too, which does no harm
        try:
            with gone_is_unavailable():
                run = partial(binding.context.run, cancellation=cancellation)
                report = run_by_deadline(run, nanoseconds(request, "deadline_ns"))
        except CancelledRunError as error:
            raise HalError(ErrorStatus.GENERAL_FAILURE, _CANCELLED) from error
        return wire.RunResponse(report=report_to_wire(report))

    @answers
    def ResetState(self, request: wire.ResetStateRequest, context: grpc.ServicerContext) -> wire.ResetStateResponse:
        self._sessions.of(context).binding(request.binding).context.reset_state()
        return wire.ResetStateResponse()

    @answers
    def Unbind(self, request: wire.UnbindRequest, context: grpc.ServicerContext) -> wire.UnbindResponse:
        self._sessions.of(context).unbind(request.binding)
        return wire.UnbindResponse()


def _bind(session: NativeSession, request: wire.BindRequest, undo: ExitStack) -> tuple[SessionBinding, Descriptor]:
    """Bind a model, and return the client's end of the binding's channel too. ``undo`` releases the binding."""
    model = session.model(request.model)
    with refused_as_hal():
        model = model.with_given([tensor.name for tensor in request.inputs])
    inputs = _bindings_from_wire(session, model, request.inputs, is_output=False)
    outputs = _bindings_from_wire(session, model, request.outputs, is_output=True)
    pools = at_most(MAX_POOLS, request.pools, "pools")
    with gone_is_unavailable():
        context = model.bind(
            inputs,
            outputs,
            [memory_from_wire(message, session.descriptors.get) for message in pools],
            request.measure_timing,
            nanoseconds(request, "loop_timeout_duration_ns"),
            hints_of(request),
            request.prepares_dimensions,
            varies=request.lengths_by_run,
        )
    undo.callback(model.unbind, context)
    ours, theirs = session.make_channel()
    binding = SessionBinding(model, context, ours, session.memories)
    undo.callback(binding.close)
    for tensor in (*inputs, *outputs):
        if isinstance(tensor.memory, AllocatedMemory):  # it may have been freed meanwhile, which raises here
            session.memories.keep(tensor.memory, binding)
    return binding, theirs


def _bindings_from_wire(
    session: NativeSession, model: LoadedModel, messages: Sequence[wire.TensorBinding], is_output: bool
) -> list[TensorBinding]:
    """Decode bindings, with the memory that they name.

    Raises INVALID_ARGUMENT if the memory is unknown, was allocated for other uses, or is given a location too.
    """
    prepared = model.original
    tensors = prepared.imported.outputs if is_output else prepared.imported.inputs
    indexes = {tensor.name: index for index, tensor in enumerate(tensors)}
    bindings = []
    for message in at_most(MAX_ARGUMENTS, messages, "outputs" if is_output else "inputs"):
        binding = binding_from_wire(message)
        if message.memory:
            memory = session.memory(message.memory)
            if binding.location != NOWHERE:
                invalid_argument(
                    f"{message.name!r} has memory of its own and a location ({binding.location}), expected none"
                )
            if message.name in indexes:  # else binding refuses the name
                memory.description.require_role(prepared, is_output, indexes[message.name], binding.dimensions)
            binding = replace(binding, memory=memory)
        bindings.append(binding)
    return bindings


def _open_run_channels(
    session: NativeSession, binding: SessionBinding, handle: int, limit: int, takes_turns: bool
) -> Sequence[wire.RunChannel]:
    """Offer the client a run channel to the binding's devices, for each turn of a state; none if plan, devices or limit
    allow none.

    A session with a rate limit has none, since the framework learns of direct runs only afterwards. The devices close
    the channel when the binding is released, its model is unloaded, or the session ends.
    """
    context = binding.context
    held = sum(other.context.run_channels for other in session.all(SessionBinding))
    if session.is_rate_limited or held + (1 if context.state is None else 2) > limit:
        return ()
    try:
        ends = context.open_run_channels(takes_turns)
        numbers = [session.descriptors.offer(end.channel, owner=handle) for end in ends]
    except NnhalError:  # a device has no run channels or is gone, which runs will tell; or the session is full
        context.close_run_channel()
        return ()
    may_fall_back = binding.model.prepared.parts.may_fall_back
    hidden = frozenset() if context.state is None else context.state.output_names
    return [
        wire.RunChannel(
            channel_descriptor_id=number,
            execution=end.execution,
            may_fall_back=may_fall_back,
            outputs=["" if name in hidden else name for name in end.outputs],
            numbers_answers=True,
            inputs=end.inputs,
        )
        for number, end in zip(numbers, ends, strict=True)
    ]


def _answer(context: ExecutionContext, session: NativeSession, names: Sequence[str], message: bytes) -> bytes:
    """Answer one RunCall on the channel of a binding, whose inputs are named as they were bound."""
    try:
        call = wire.RunCall.FromString(message)
    except DecodeError as error:
        raise ProtocolError(f"{len(message)} bytes that are no RunCall") from error
    try:
        session.admit_run()
        if call.lost_because:
            reason = call.lost_because[:_MAX_ERROR_CHARACTERS]
            _log.warning("a run channel has ended: a client reports the device", client=session.client, reason=reason)
        if call.lost_run_channel:
            context.close_run_channel()
        run = partial(context.run, lengths=_lengths_of(call, names)) if call.lengths else context.run
        if call.HasField("state_turn"):
            run = partial(run, turn=call.state_turn % 2)
        report = run_by_deadline(run, nanoseconds(call, "deadline_ns"))
        return wire.RunAnswer(report=report_to_wire(report)).SerializeToString()
    except OutputTooSmallError as error:
        return _refusal(error.status, error.message, insufficient_to_wire(error))
    except HalError as error:
        return _refusal(error.status, error.message)
    except CancelledRunError:
        return _refusal(ErrorStatus.GENERAL_FAILURE, _CANCELLED)
    except NnhalError as error:
        return _refusal(ErrorStatus.DEVICE_UNAVAILABLE, str(error))
    except Exception as error:
        _log.exception("a run failed")
        unexpected = defect(error)
        return _refusal(unexpected.status, unexpected.message)


def _lengths_of(call: wire.RunCall, names: Sequence[str]) -> dict[str, Dimensions]:
    """The lengths of inputs that a call gives, by name. Raises INVALID_ARGUMENT."""
    lengths = lengths_from_wire(call.lengths)
    if any(position >= len(names) for position, _ in lengths):
        invalid_argument(f"lengths of inputs {[position for position, _ in lengths]} of {len(names)}")
    return {names[position]: dimensions for position, dimensions in lengths}


def _protocol_refusal(message: str) -> bytes:
    return _refusal(ErrorStatus.INVALID_ARGUMENT, message)


def _refusal(status: ErrorStatus, message: str, report: wire.RunReport | None = None) -> bytes:
    return wire.RunAnswer(
        status=types_pb2.ErrorStatus.ValueType(status), message=message[:_MAX_ERROR_CHARACTERS], report=report
    ).SerializeToString()
