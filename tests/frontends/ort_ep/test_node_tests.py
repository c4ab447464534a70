"""ONNX's own node tests through the provider: each that ONNX Runtime's CPU provider passes.

By default one in twenty is run; with NNHAL_ONNX_BACKEND=all every one.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from typing import Any

import onnx
import onnxruntime
import pytest
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.runner import Runner

from nnhal_tools.onnx_backend_report import KNOWN_FAILURES, RANDOM, package_cases
from nnhal_tools.up import Testbed
from tests.frontends.ort_ep.sessions import CPU, session

pytestmark = [pytest.mark.sdk, pytest.mark.slow, pytest.mark.timeout(1800)]  # the first one builds the provider
_EVERY = 1 if os.environ.get("NNHAL_ONNX_BACKEND") == "all" else 20
Given = tuple[TestCase, onnx.ModelProto, list[tuple[Any, Any]]]
EXPECTED = "|".join(pattern for pattern, why in KNOWN_FAILURES.items() if why != RANDOM)


@pytest.fixture(scope="module")
def cases() -> list[Given]:
    """Return all tests, with models and values; computing these takes seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package's data overflow intentionally
        return [given for given in package_cases("node") if not given[0].name.endswith("_cuda")]


def failure(made: onnxruntime.InferenceSession, given: Given) -> str:
    case, _, sets = given
    names = [value.name for value in made.get_inputs()]
    try:
        for inputs, wanted in sets:
            results = made.run(None, dict(zip(names, inputs, strict=False)))
            Runner.assert_similar_outputs(wanted, results, case.rtol, case.atol)
    except Exception as error:  # those of ONNX Runtime have no common class
        return str(error) or type(error).__name__
    return ""


def passed(cases: list[Given]) -> Iterator[Given]:
    """The tests that ONNX Runtime passes itself."""
    for given in cases:
        with_runtime = plain_session(given[1])
        if with_runtime is not None and not failure(with_runtime, given):
            yield given


def plain_session(model: onnx.ModelProto) -> onnxruntime.InferenceSession | None:
    """A session of ONNX Runtime's own; None if it refuses the model."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=[CPU])
    except Exception:  # as above
        return None


def test_what_onnx_runtime_passes_the_provider_passes(provider: Testbed, cases: list[Given]) -> None:
    chosen = [given for given in passed(cases[::_EVERY]) if not re.search("bernoulli|dropout", given[0].name)]
    assert len(chosen) > 1000 // _EVERY
    failed = {}
    for given in chosen:
        why = failure(session(given[1].SerializeToString(), strict=False), given)
        if why:
            failed[given[0].name] = why
    assert failed == {}


def test_a_type_as_an_attribute_is_left_to_onnx_runtime(provider: Testbed, cases: list[Given]) -> None:
    (given,) = [given for given in cases if given[0].name == "test_if_opt"]
    assert failure(session(given[1].SerializeToString(), strict=False), given) == ""


def test_onnx_runtime_fails_what_is_known_to_fail(cases: list[Given]) -> None:
    known = [given for given in cases if re.search(EXPECTED, given[0].name)]
    assert len(known) > 15
    assert [given[0].name for given in passed(known)] == []
