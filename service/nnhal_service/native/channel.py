"""Serving a binding's channel: RunCall in, RunAnswer out, in lockstep."""

from __future__ import annotations

from functools import partial

from google.protobuf.message import DecodeError

from nnhal.errors import HalError, NnhalError
from nnhal.link import Channel, ProtocolError
from nnhal.types import ErrorStatus
from nnhal.v1 import framework_pb2 as wire
from nnhal.v1 import types_pb2
from nnhal_hosting.logs import get_logger
from nnhal_service.native.client import Client
from nnhal_service.native.convert import insufficient_to_wire, report_to_wire
from nnhal_service.runtime import ExecutionContext, OutputTooSmallError
from nnhal_service.runtime.run.deadlines import run_by_deadline

_log = get_logger(__name__)
_MAX_ERROR_CHARACTERS = 2000


def serve_binding(context: ExecutionContext, client: Client, channel: Channel) -> None:
    """Answer on a channel, in a thread of its own, until either side closes it."""
    client.serve(channel, "binding", partial(_answer, context, client))


def _answer(context: ExecutionContext, client: Client, message: bytes) -> bytes:
    try:
        call = wire.RunCall.FromString(message)
    except DecodeError as error:
        raise ProtocolError(f"{len(message)} bytes that are no RunCall") from error
    try:
        client.admit_run()
        report = run_by_deadline(context.run, call.deadline_ns)
        return wire.RunAnswer(report=report_to_wire(report)).SerializeToString()
    except OutputTooSmallError as error:
        return _refusal(error.status, error.message, insufficient_to_wire(error))
    except HalError as error:
        return _refusal(error.status, error.message)
    except NnhalError as error:
        return _refusal(ErrorStatus.DEVICE_UNAVAILABLE, str(error))
    except Exception:
        _log.exception("a run failed")
        return _refusal(ErrorStatus.GENERAL_FAILURE, "the framework failed; its log says why")


def _refusal(status: ErrorStatus, message: str, report: wire.RunReport | None = None) -> bytes:
    return wire.RunAnswer(
        status=types_pb2.ErrorStatus.ValueType(status), message=message[:_MAX_ERROR_CHARACTERS], report=report
    ).SerializeToString()
