"""Checking that a call is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nnhal.errors import HalError
from nnhal.types import ErrorStatus

INVALID = ErrorStatus.INVALID_ARGUMENT
FAILURE = ErrorStatus.GENERAL_FAILURE
MISSED = (ErrorStatus.MISSED_DEADLINE_TRANSIENT, ErrorStatus.MISSED_DEADLINE_PERSISTENT)


def refusal(call: Callable[[], object], status: ErrorStatus, words: str = "") -> HalError:
    """Check that a call fails with a status and a message that matches ``words``, and return the error."""
    with pytest.raises(HalError, match=words or None) as caught:
        call()
    assert caught.value.status == status, str(caught.value)
    return caught.value
