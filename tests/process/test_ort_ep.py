"""ort_ep with another party's provider, if one is installed: a network on it, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import numpy as np
import pytest

from nnhal.operations.operand_types import F32
from nnhal.remote import RemoteDevice
from nnhal.types import OperationType
from nnhal_tools.cases.execution import run_on
from tests.support.agreement import like
from tests.support.models import Recipe
from tests.support.processes import own_device

PACKAGE = "onnxruntime_ggml"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec(PACKAGE) is None, reason=f"the package {PACKAGE} is not installed"),
]


@pytest.fixture(scope="module")
def ggml() -> Iterator[RemoteDevice]:
    """A session with a device on ggml's CPU backend."""
    words = ["--option", f"library={PACKAGE}", "--option", "provider_options=device=cpu"]
    with (
        own_device("ort_ep", *words) as (_, endpoint),
        RemoteDevice(endpoint, "test") as device,
    ):
        yield device


def test_a_network_runs_on_the_provider(ggml: RemoteDevice) -> None:
    random = np.random.default_rng(0)
    weights, given = (random.standard_normal(shape).astype(np.float32) for shape in ((8, 16), (4, 16)))
    recipe = Recipe()
    image, bias = recipe.input(F32, (4, 16)), recipe.constant(F32, np.zeros(8, np.float32))
    product = recipe.operation(
        OperationType.FULLY_CONNECTED,
        [image, recipe.constant(F32, weights), bias, *recipe.integers(0)],
        like(F32, (4, 8)),
    )
    model = recipe.build(recipe.operation(OperationType.TANH, [product], like(F32, (4, 8)))).model
    assert ggml.supported_operations(model) == [True, True]
    ((got,),) = run_on(ggml, model, [[given]])
    np.testing.assert_allclose(got, np.tanh(given @ weights.T), atol=0.05)  # its weights are float16


def test_what_the_provider_leaves_is_not_run_on_the_cpu(ggml: RemoteDevice) -> None:
    recipe = Recipe()
    image = recipe.input(F32, (1, 4, 4, 2))
    pooled = recipe.operation(
        OperationType.MAX_POOL_2D, [image, *recipe.integers(1, 1, 1, 2, 2, 0)], like(F32, (1, 4, 4, 2))
    )
    assert ggml.supported_operations(recipe.build(pooled).model) == [False]
