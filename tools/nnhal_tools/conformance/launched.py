"""The result of a launch."""

from __future__ import annotations

import contextlib

from nnhal.errors import HalError
from nnhal.fence import FenceError
from nnhal.remote import RemoteFencedExecution
from nnhal.types import ErrorStatus, ExecutionResult


def awaited(launched: RemoteFencedExecution) -> ExecutionResult:
    """Wait for a fenced execution, and return its result. Raises HalError if it failed."""
    try:
        if launched.fence is not None:
            with contextlib.suppress(FenceError):
                launched.fence.wait()
        info = launched.info()
    finally:
        launched.release()
    if info.status != ErrorStatus.NONE:
        raise HalError(info.status, info.message)
    return ExecutionResult(timing=info.timing_fenced)
