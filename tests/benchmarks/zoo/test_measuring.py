"""The corpus is run as it is, and what cannot be run is said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.zoo.measuring import Effort, aims_of, measured
from benchmarks.zoo.packages import ModelFile
from nnhal_client import Framework, connect
from nnhal_tools.up import DeviceEntry, Testbed, Topology
from tests.support.processes import WARM
from tests.support.repositories import onnx_file

_LITTLE = Effort(1, 0.0)


@pytest.fixture
def framework(short_path: Path) -> Iterator[Framework]:
    with (
        Testbed(Topology(device=(DeviceEntry(driver="cpu_acc"),)), short_path, zygote=WARM) as testbed,
        connect(testbed.framework) as session,
    ):
        yield session


def test_models_with_open_dimensions_are_compared_and_others_have_a_reason(
    framework: Framework, tmp_path: Path
) -> None:
    good, bad = tmp_path / "good.onnx", tmp_path / "bad.onnx"
    good.write_bytes(onnx_file(shape=("batch", 8)))
    bad.write_bytes(b"no model")
    ran, refused = (measured(ModelFile(path.name, path), framework, _LITTLE) for path in (good, bad))
    assert (ran.refusal, ran.operations, ran.steps) == ("", 1, 1)
    assert ran.difference < 1e-6
    assert ran.ratio > 0
    assert refused.refusal.startswith("its runtime refuses it")
    assert next(aim.is_met for aim in aims_of([ran, refused]))
