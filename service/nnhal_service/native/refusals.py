"""Errors of a framework's rooms as the native services report them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nnhal.errors import HalError, TransportError
from nnhal.types import ErrorStatus
from nnhal_frontends.errors import FrontendError
from nnhal_service.partition import PlacementError
from nnhal_service.serving import ErrorKind, ServingError

_STATUSES = {
    ErrorKind.NOT_FOUND: ErrorStatus.INVALID_ARGUMENT,
    ErrorKind.INVALID_ARGUMENT: ErrorStatus.INVALID_ARGUMENT,
    ErrorKind.UNSUPPORTED: ErrorStatus.INVALID_ARGUMENT,
    ErrorKind.UNAVAILABLE: ErrorStatus.DEVICE_UNAVAILABLE,
    ErrorKind.RESOURCE_EXHAUSTED: ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT,
}


@contextmanager
def refused_as_hal() -> Iterator[None]:
    """Report errors of the repository, a front end, the partitioner or a device that is gone as HalErrors."""
    try:
        yield
    except ServingError as error:
        raise HalError(_STATUSES.get(error.kind, ErrorStatus.GENERAL_FAILURE), error.message) from error
    except TransportError as error:  # to the client, TransportError is about the framework
        raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, str(error)) from error
    except (FrontendError, PlacementError) as error:
        raise HalError(ErrorStatus.INVALID_ARGUMENT, str(error)) from error
    except LookupError as error:
        if type(error) is not LookupError:  # a defect; an unknown device is a LookupError itself
            raise
        raise HalError(ErrorStatus.INVALID_ARGUMENT, str(error)) from error
