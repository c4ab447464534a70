"""The limits of what a session may own."""

from __future__ import annotations

import os

import pytest

from nnhal.errors import HalError
from nnhal.types import ErrorStatus
from nnhal_hosting.descriptors import SessionLimits
from nnhal_hosting.link_server import Session
from nnhal_hosting.sessions import MAX_OBJECTS, Ownership


@pytest.fixture
def owner() -> Ownership:
    """Return the owner of an empty session."""
    return Ownership(Session(SessionLimits(descriptors_per_session=1, sessions=1), os.getpid(), os.getuid()))


def test_the_number_of_objects_per_session_is_limited(owner: Ownership) -> None:
    handles = [owner.add(number) for number in range(MAX_OBJECTS)]
    with pytest.raises(HalError) as caught:
        owner.add("one more")
    assert caught.value.status == ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT
    assert caught.value.message == f"the session owns {MAX_OBJECTS} objects, at most {MAX_OBJECTS} are allowed"
    assert owner.release(handles[0]) == 0
    assert owner.get(owner.add("one more"), str, "text") == "one more"
    assert owner.get(handles[1], int, "number") == 1
