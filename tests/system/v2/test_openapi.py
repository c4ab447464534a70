"""Schemathesis on the HTTP API's own description: whatever it makes up, the server answers as the description says."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
import tritonclient.http
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.core.failures import FailureGroup
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.support.model_server import Served
from tests.support.repositories import numbers
from tests.support.searching import further
from tests.support.tritonclients import Triton

EXAMPLES = further(4)
"""For each operation, of valid requests and as many invalid ones. A valid one may name a model that is not there."""


def problem_of(operation: Any, mode: GenerationMode) -> str:
    """Return what requests of one kind find; empty for nothing."""

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=EXAMPLES, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    def check(case: Any) -> None:
        case.call_and_validate(timeout=60, excluded_checks=[positive_data_acceptance])

    try:
        check()
    except Unsatisfiable:  # nothing about the operation can be wrong
        assert mode == GenerationMode.NEGATIVE
    except FailureGroup as group:
        return "\n".join(str(failure) for failure in group.exceptions)
    return ""


@pytest.mark.search
def test_every_operation_answers_as_it_is_described(served: Served) -> None:
    schema: Any = schemathesis.openapi.from_url(f"http://{served.http}/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) >= 30
    problems = {
        f"{operation.label}, {mode.value}": problem
        for operation in operations
        for mode in GenerationMode
        if (problem := problem_of(operation, mode))
    }
    assert not problems, "\n\n".join(f"{label}\n{problem}" for label, problem in problems.items())
    with Triton("http", tritonclient.http, served.http) as client:
        assert client.infer("tanh", {"x": numbers()}).as_numpy("y").shape == (1, 8)
