"""The limits of what a session may own."""

from __future__ import annotations

import os

import pytest

from nnhal.errors import HalError
from nnhal.shares import acting_for
from nnhal.types import ErrorStatus
from nnhal_hosting.descriptors import MAX_OBJECTS, SessionLimits
from nnhal_hosting.link_server import Session
from nnhal_hosting.sessions import Ownership


@pytest.fixture
def owner() -> Ownership:
    return Ownership(Session(SessionLimits(descriptors=1, sessions=1), os.getpid(), os.getuid()))


def test_the_number_of_objects_per_session_is_limited(owner: Ownership) -> None:
    with acting_for(owner.session.tenant):
        handles = [owner.add(number) for number in range(MAX_OBJECTS)]
        with pytest.raises(HalError) as caught:
            owner.add("one more")
    assert caught.value.status == ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT
    assert (
        f"(pid {os.getpid()}, uid {os.getuid()}) holds {MAX_OBJECTS} of the {MAX_OBJECTS} that" in caught.value.message
    )
    assert owner.release(handles[0]) == 0
    assert owner.get(owner.add("one more"), str, "text") == "one more"
    assert owner.get(handles[1], int, "number") == 1
