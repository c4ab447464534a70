"""Schemathesis on the HTTP API's own description: whatever it makes up, the server answers as the description says."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
import tritonclient.http

from tests.support.described import problems_of
from tests.support.model_server import Served
from tests.support.repositories import numbers
from tests.support.searching import further
from tests.support.tritonclients import Triton


@pytest.mark.search
def test_every_operation_answers_as_it_is_described(served: Served) -> None:
    schema: Any = schemathesis.openapi.from_url(f"http://{served.http}/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) >= 30
    problems = problems_of(operations, further(4))
    assert not problems, problems
    with Triton("http", tritonclient.http, served.http) as client:
        assert client.infer("tanh", {"x": numbers()}).as_numpy("y").shape == (1, 8)
