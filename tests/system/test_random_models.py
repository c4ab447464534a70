"""Random models of ONNX on all devices, beside ONNX Runtime without optimisations.

``NNHAL_RANDOM_MODELS=N`` draws N models of each kind, others each time, and keeps what fails in .hypothesis/.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import onnx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from nnhal.errors import HalError
from nnhal_client.framework import Framework, connect
from nnhal_tools.up import DeviceEntry, Testbed, Topology
from tests.support.deaths import kill_for_good
from tests.support.onnx_operators import MAKERS
from tests.support.processes import WARM
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


def test_answers_stay_the_same_after_a_device_has_died(short_path: Path, tmp_path: Path) -> None:
    cases: list[Case] = []

    @examples(40)
    @given(case=models(list(MAKERS.values()), 4))
    def collect(case: Case | None) -> None:
        if case is not None:
            cases.append(case)

    collect()
    topology = Topology(device=tuple(DeviceEntry(driver=name) for name in DEFAULT))
    with Testbed(topology, short_path, zygote=WARM) as bed, connect(bed.framework) as framework:
        loaded = []
        for number, case in enumerate(cases):
            path = tmp_path / f"{number}.onnx"
            onnx.save(case.model, path)
            with suppress(HalError):  # the reference refuses it at planning, and so says that there is no substitute
                framework.load(path, ("cpu_ref",)).unload()
                loaded.append((case, framework.load(path)))
        assert len(loaded) > len(cases) // 2
        kill_for_good(bed, "cpu_acc")
        for case, model in loaded:
            assert case.differences(model.run(case.inputs)) == []


@pytest.mark.parametrize("name", sorted(MAKERS))
@examples(2)
@given(data=st.data())
def test_each_operator(
    framework: Framework, tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    case = data.draw(models([MAKERS[name]], 1, empties=True))
    require_same(framework, tmp_path_factory.getbasetemp() / "one.onnx", case, DEVICES[:3])
