"""Resources that a host may run out of: memory, shared memory, descriptors, threads. Clients get a message about it."""

from __future__ import annotations

import errno

from nnhal.errors import HalError
from nnhal.types.enums import ErrorStatus

_NO_MEMORY = "the host has no memory left for it"
_LACKS = {
    errno.ENOMEM: _NO_MEMORY,
    errno.ENOSPC: "the host has no room left in shared memory or on its disk",
    errno.EDQUOT: "the quota of the host's disk is used up",
    errno.EFBIG: "it is larger than a file of the host may be",
    errno.EMFILE: "the process has no descriptor left",
    errno.ENFILE: "the host has no descriptor left",
    errno.ENOBUFS: "the host has no buffer left for sockets",
}
_NO_THREAD = "can't start new thread"


def lack_of(error: BaseException) -> str:
    """Return what the host lacks, as words that end a sentence; empty if the error means something else."""
    if isinstance(error, MemoryError):
        return _NO_MEMORY
    if isinstance(error, OSError):
        return _LACKS.get(error.errno or 0, "")
    return "the process cannot start another thread" if str(error) == _NO_THREAD else ""


def reason_of(error: OSError | ValueError | RuntimeError | OverflowError) -> str:
    """Say why the host refuses something, without the number of the error."""
    if isinstance(error, OverflowError):
        return "it is larger than any memory of the host"
    if isinstance(error, OSError):
        return lack_of(error) or error.strerror or "the host gives no reason"
    return lack_of(error) or str(error)


def host_failure(what: str, error: OSError | ValueError | RuntimeError | OverflowError) -> HalError:
    """Return what the host has refused: RESOURCE_EXHAUSTED_TRANSIENT if it lacks something, else GENERAL_FAILURE."""
    status = ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT if lack_of(error) else ErrorStatus.GENERAL_FAILURE
    return HalError(status, f"{what}: {reason_of(error)}")
