"""Ending a gRPC call with the error that its servicer's method raised."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NoReturn, TypeVar

import grpc

from nnhal.codec import abort_status
from nnhal.errors import HalError
from nnhal.exhaustion import lack_of
from nnhal.types import ErrorStatus
from nnhal_hosting.logs import get_logger

DEFECT = "the call failed; the log of the process has the reason"
"""The message to a client about an exception that nobody expected."""
_log = get_logger(__name__)
S = TypeVar("S")
I = TypeVar("I")  # noqa: E741 - input
O = TypeVar("O")  # noqa: E741 - output


def answers(
    method: Callable[[S, I, grpc.ServicerContext], O],
) -> Callable[[S, I, grpc.ServicerContext], O]:
    """Wrap a servicer's method: HalErrors become statuses, and any other error is logged first."""

    @functools.wraps(method)
    def call(self: S, request: I, context: grpc.ServicerContext) -> O:
        try:
            return method(self, request, context)
        except Exception as error:
            abort(context, answered_error(error, "a call failed", method=method.__name__))

    return call


def answered_error(error: Exception, event: str, **values: object) -> HalError:
    """Return the error that a client gets for an exception, which is logged as ``event`` if nobody expected it."""
    if isinstance(error, HalError):
        return error
    _log.error(event, exc_info=error, **values)
    return defect(error)


def defect(error: Exception) -> HalError:
    """Return the error that a client gets for an unexpected exception: what the host lacks is no defect."""
    lack = lack_of(error)
    if lack:
        return HalError(ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT, f"the call failed: {lack}")
    return HalError(ErrorStatus.GENERAL_FAILURE, DEFECT)


def abort(context: grpc.ServicerContext, error: HalError) -> NoReturn:
    context.abort_with_status(abort_status(error))
    raise error  # not reached: aborting raises
