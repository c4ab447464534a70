"""Random models of ONNX on all devices, beside ONNX Runtime without optimisations.

``NNHAL_RANDOM_MODELS=N`` draws N models of each kind, others each time, and keeps what fails in .hypothesis/.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import onnx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from nnhal.errors import HalError
from nnhal_client.framework import Framework
from nnhal_tools.up import DeviceEntry
from tests.support.onnx_operators import MAKERS
from tests.support.random_models import Case, models
from tests.support.testbeds import framework_over

DEFAULT = ("cpu_acc", "cpu_ref")
DEVICES = (DEFAULT, ("cpu_ref",), *((npu, "cpu_ref") for npu in ("gpu_acc", "ethos_n", "ethos_u", "mlip")))
_MANY = int(os.environ.get("NNHAL_RANDOM_MODELS", 0))


def examples(count: int) -> settings:
    """Settings for so many models, the same each time, and not made smaller; or for as many as the environment says."""
    if _MANY:
        return settings(max_examples=_MANY, derandomize=False, suppress_health_check=list(HealthCheck))
    return settings(max_examples=count, phases=[Phase.generate], suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def framework() -> Iterator[Framework]:
    """A framework over all devices."""
    names = dict.fromkeys(name for devices in DEVICES for name in devices)
    with framework_over(*(DeviceEntry(driver=name) for name in names)) as session:
        yield session


def require_same(framework: Framework, path: Path, case: Case | None, choices: Sequence[tuple[str, ...]]) -> None:
    """Check that a model's answers are ONNX Runtime's, or that the reference refuses it before it runs."""
    if case is None:
        return
    onnx.save(case.model, path)
    for devices in choices:
        try:
            model = framework.load(path, devices)
        except HalError as error:
            assert devices != DEFAULT, error
            assert "no device takes" in str(error), (devices, error)
            continue
        with model:
            assert case.differences(model.run(case.inputs)) == [], devices


@examples(60)
@given(case=models(list(MAKERS.values()), 6))
def test_random_models(framework: Framework, tmp_path_factory: pytest.TempPathFactory, case: Case | None) -> None:
    require_same(framework, tmp_path_factory.getbasetemp() / "random.onnx", case, DEVICES)


@examples(60)
@given(case=models(list(MAKERS.values()), 4, empties=True))
def test_models_of_empty_values(
    framework: Framework, tmp_path_factory: pytest.TempPathFactory, case: Case | None
) -> None:
    require_same(framework, tmp_path_factory.getbasetemp() / "empty.onnx", case, DEVICES[:3])


@pytest.mark.parametrize("name", sorted(MAKERS))
@examples(2)
@given(data=st.data())
def test_each_operator(
    framework: Framework, tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    case = data.draw(models([MAKERS[name]], 1, empties=True))
    require_same(framework, tmp_path_factory.getbasetemp() / "one.onnx", case, DEVICES[:3])
