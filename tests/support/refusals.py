"""What a device answers when it refuses."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nnhal.errors import HalError
from nnhal.types import ErrorStatus

INVALID = ErrorStatus.INVALID_ARGUMENT
FAILURE = ErrorStatus.GENERAL_FAILURE
MISSED = (ErrorStatus.MISSED_DEADLINE_TRANSIENT, ErrorStatus.MISSED_DEADLINE_PERSISTENT)


def refusal(call: Callable[[], object], status: ErrorStatus, words: str = "") -> HalError:
    """The error of a call that must fail with a status, and with a message that matches ``words``."""
    with pytest.raises(HalError, match=words or None) as caught:
        call()
    assert caught.value.status == status, str(caught.value)
    return caught.value
