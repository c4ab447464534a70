"""A host whose shared memory is full."""

from __future__ import annotations

import pytest

from tests.support.full_shm import SIZES, answers, may_mount
from tests.support.plain_words import require_plain


@pytest.mark.slow
def test_a_full_host_is_resource_exhausted_in_words() -> None:
    if not may_mount():
        pytest.skip("needs the right to mount a file system over /dev/shm")
    found = answers()
    assert [status for status, _ in found] == ["429"] * len(SIZES) + ["StatusCode.RESOURCE_EXHAUSTED"] * len(SIZES)
    for _, message in found:
        assert "no room left" in message
        require_plain(message)
