"""ONNX's own backend tests, through a framework process.

By default they cover a core of operators; with NNHAL_ONNX_BACKEND=all they cover every operator.
"""

from __future__ import annotations

import os
import re
import unittest
import warnings
from collections.abc import Mapping
from string import ascii_lowercase

import numpy as np
import onnx
import pytest
from onnx import helper

from nnhal_tools import onnx_backend
from nnhal_tools.onnx_backend import NnhalBackend
from nnhal_tools.onnx_backend_report import EXTENSION, HAL, KNOWN_FAILURES, RANDOM, BackendOutcome, light_tests, report
from tests.support.onnx_models import onnx_model

_ALL = os.environ.get("NNHAL_ONNX_BACKEND") == "all"
_CORE = (
    "add and argmax averagepool batchnorm cast clip compress concat conv cumsum dequantizelinear div einsum expand "
    "gather gemm gru identity if instancenorm layer_normalization loop[0-9]+ lstm matmul maxpool mul "
    "nonmaxsuppression nonzero optional qlinearconv quantizelinear range reduce_mean reduce_sum relu reshape resize "
    "scan scatter sequence shape slice softmax split string sub tanh tile top_k transpose unique where"
)
_GROUPS = ascii_lowercase if _ALL else _CORE.split()
"""What names of tests begin with."""


@pytest.fixture(scope="module")
def cases() -> Mapping[str, type[unittest.TestCase]]:
    """Return the package's tests without the excluded ones, which would otherwise count as skipped.

    Their expected results are computed when they are imported, which takes seconds.
    """
    from onnx.backend.test import BackendTest

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package's data overflow intentionally
        tests = BackendTest(NnhalBackend, __name__)
    tests.exclude("_cuda$").exclude("^test_(bvlc|densenet|inception|resnet50|shufflenet|squeezenet|vgg|zfnet)")
    if not _ALL:
        tests.include(f"^test_({'|'.join(_GROUPS)})(_|$)")
    for pattern, why in KNOWN_FAILURES.items():
        (tests.exclude if why == RANDOM else tests.xfail)(pattern)
    cases: dict[str, type[unittest.TestCase]] = tests.test_cases
    for case in cases.values():
        for name in [name for name in dir(case) if name.startswith("test_")]:
            if getattr(getattr(case, name), "__unittest_skip__", False):
                delattr(case, name)
    return cases


@pytest.mark.slow
@pytest.mark.parametrize("group", _GROUPS)
def test_the_tests_of_the_package_pass(cases: Mapping[str, type[unittest.TestCase]], group: str) -> None:
    pattern = re.compile(f"test_{group}" if _ALL else f"test_{group}(_|$)", re.IGNORECASE)
    suite = unittest.TestSuite(case(name) for case in cases.values() for name in dir(case) if pattern.match(name))
    result = unittest.TestResult()
    suite.run(result)
    failed = [f"{test.id().rpartition('.')[2]}: {trace}" for test, trace in (*result.failures, *result.errors)]
    assert not failed, "\n".join(failed)
    assert not result.unexpectedSuccesses
    assert result.testsRun or _ALL


@pytest.fixture(scope="module")
def networks() -> list[BackendOutcome]:
    """Run the networks and return their results; without NNHAL_ONNX_BACKEND only the small ones."""
    names = "*" if _ALL else "light_s*"
    return list(light_tests(names))


def test_the_networks_of_the_package_pass(networks: list[BackendOutcome]) -> None:
    assert len(networks) == (9 if _ALL else 2)
    assert [outcome for outcome in networks if outcome.reason] == []


def test_a_single_node_can_be_run() -> None:
    x = np.array([[-1, 2], [3, -4]], np.float32)
    (y,) = onnx_backend.run_node(helper.make_node("Relu", ["x"], ["y"]), [x])
    np.testing.assert_array_equal(y, np.maximum(x, 0))


def test_a_model_takes_inputs_by_position_or_by_name() -> None:
    model = onnx_model([helper.make_node("Sub", ["a", "b"], ["y"])], {"a": [2], "b": [2]}, ["y"])
    a, b = np.array([5, 6], np.float32), np.array([1, 2], np.float32)
    loaded = onnx_backend.prepare(model)
    np.testing.assert_array_equal(loaded.run([a, b])[0], [4, 4])
    np.testing.assert_array_equal(loaded.run({"b": a, "a": b})[0], [-4, -4])


def test_there_is_a_cpu_and_no_other_device() -> None:
    assert onnx_backend.supports_device("CPU")
    assert not onnx_backend.supports_device("CUDA")
    with pytest.raises(ValueError, match="CUDA"):
        onnx_backend.prepare(onnx.ModelProto(), "CUDA")


def test_the_report_counts_and_names_what_fails() -> None:
    page = report(
        [
            BackendOutcome("node", "test_a", HAL, ("cpu_acc",)),
            BackendOutcome("node", "test_b", EXTENSION, ("cpu_ref",)),
            BackendOutcome("node", "test_c", "failed", (), "no device has it"),
        ]
    )
    assert "| node | 2 of 3 | 1 | 0 | 1 | 1 |" in page
    assert "- no device has it: test_c" in page
