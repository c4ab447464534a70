from __future__ import annotations

import errno

import pytest

from nnhal.errors import HalError
from nnhal.exhaustion import host_failure, lack_of
from nnhal.types import ErrorStatus
from tests.support.plain_words import require_plain

LACKS = [
    MemoryError(),
    *(OSError(number, "as the system says it") for number in (errno.ENOMEM, errno.ENOSPC, errno.EMFILE, errno.ENFILE)),
    RuntimeError("can't start new thread"),
]


@pytest.mark.parametrize("error", LACKS, ids=repr)
def test_what_the_host_lacks_is_said_in_words(error: Exception) -> None:
    require_plain(lack_of(error))
    assert "as the system says it" not in lack_of(error)


@pytest.mark.parametrize("error", [OSError(errno.EPERM, "Operation not permitted"), ValueError("a"), KeyError("b")])
def test_other_errors_are_no_lack(error: Exception) -> None:
    assert lack_of(error) == ""


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (OSError(errno.ENOMEM, "x"), ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT, "a pool: the host has no memory left"),
        (OSError(errno.EPERM, "Not permitted"), ErrorStatus.GENERAL_FAILURE, "a pool: Not permitted"),
        (ValueError("its size is wrong"), ErrorStatus.GENERAL_FAILURE, "a pool: its size is wrong"),
        (OverflowError("C long"), ErrorStatus.GENERAL_FAILURE, "a pool: it is larger than any memory"),
    ],
)
def test_the_hosts_refusal_has_a_status_and_words(
    error: OSError | ValueError | OverflowError, status: ErrorStatus, words: str
) -> None:
    failure = host_failure("a pool", error)
    assert isinstance(failure, HalError)
    assert failure.status == status
    assert failure.message.startswith(words)
