"""Schemathesis on one operation of an HTTP API: whatever it makes up, the server answers as its description says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.core.failures import FailureGroup
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import ignored_auth, positive_data_acceptance


def problems_of(operations: list[Any], examples: int, headers: Mapping[str, str] | None = None) -> str:
    """Return what is found with so many valid and as many invalid requests of each operation; empty for nothing.

    A valid one may name a thing that is not there. ``headers`` go with every request, so that whether a token is asked
    for is for the test itself to look at.
    """
    found = {
        f"{operation.label}, {mode.value}": problem
        for operation in operations
        for mode in GenerationMode
        if (problem := _problem_of(operation, mode, examples, headers))
    }
    return "\n\n".join(f"{label}\n{problem}" for label, problem in found.items())


def _problem_of(operation: Any, mode: GenerationMode, examples: int, headers: Mapping[str, str] | None) -> str:
    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=examples, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    def check(case: Any) -> None:
        case.call_and_validate(timeout=60, headers=headers, excluded_checks=[positive_data_acceptance, ignored_auth])

    try:
        check()
    except Unsatisfiable:  # nothing about the operation can be wrong
        assert mode == GenerationMode.NEGATIVE
    except FailureGroup as group:
        return "\n".join(str(failure) for failure in group.exceptions)
    return ""
