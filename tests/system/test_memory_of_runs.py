"""Runs that would take the host's memory, inside a device or between two, end in words; other clients go on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from nnhal.errors import HalError, NnhalError
from nnhal.types import ErrorStatus
from nnhal_client import Framework, Model, connect
from nnhal_tools.up import DEFAULT_TOPOLOGY, Testbed
from tests.support.onnx_models import onnx_model
from tests.support.processes import WARM
from tests.support.waiting import wait_until

SECONDS = 60
MEBIBYTE = 1 << 20
OWN_BYTES = 700 * MEBIBYTE
VALUE_BYTES = 24 * MEBIBYTE
PINS = {"name:inside": "cpu_ref"}


@pytest.fixture(scope="module")
def small_bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    """Run processes of cpu_acc, cpu_ref and a framework that may take little memory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NNHAL_DEVICE_MEMORY_BYTES", str(OWN_BYTES))
        patch.setenv("NNHAL_SERVICE_VALUE_BYTES", str(VALUE_BYTES))
        with Testbed(DEFAULT_TOPOLOGY, tmp_path_factory.mktemp("bed"), zygote=WARM) as bed:
            yield bed


@pytest.fixture
def client(small_bed: Testbed) -> Iterator[Framework]:
    """Open a session once both devices are there."""
    with connect(small_bed.framework) as session:
        wait_until(lambda: all(device.available for device in session.devices()), "both devices are there")
        yield session


def grown(folder: Path, shape: Sequence[int], inside: str) -> Path:
    """Write a model that repeats its one input to a shape, computes ``inside`` of that, and adds it all up."""
    nodes = [
        helper.make_node("Expand", ["x", "shape"], ["big"], "grow"),
        helper.make_node(inside, ["big"], ["done"], "inside"),
        helper.make_node("ReduceSum", ["done"], ["y"], "end", keepdims=0),
    ]
    file = folder / f"{inside}{np.prod(shape)}.onnx"
    onnx.save(onnx_model(nodes, {"x": [1]}, ["y"], {"shape": shape}), file)
    return file


def run(model: Model) -> float:
    return float(model.run({"x": np.ones(1, np.float32)})["y"])


def test_values_between_devices_have_one_limit_for_all_clients(
    small_bed: Testbed, client: Framework, tmp_path: Path
) -> None:
    wide = client.load(grown(tmp_path, [MEBIBYTE], "Relu"), pins=PINS)  # two values of 4 MiB pass between devices
    assert run(wide) == MEBIBYTE
    with connect(small_bed.framework) as greedy:
        huge = greedy.load(grown(tmp_path, [8 * MEBIBYTE], "Relu"), pins=PINS)
        with pytest.raises(
            HalError, match=f"all clients together hold .* of {VALUE_BYTES}.*NNHAL_SERVICE_VALUE_BYTES"
        ) as refused:
            run(huge)
        assert refused.value.status == ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT
        held = [greedy.load(grown(tmp_path, [MEBIBYTE], "Relu"), pins=PINS) for _ in range(8)]
        with pytest.raises(HalError, match="NNHAL_SERVICE_VALUE_BYTES"):
            for model in held:
                run(model)
        assert run(wide) == MEBIBYTE  # its memory is there already
    late = client.load(grown(tmp_path, [MEBIBYTE], "Relu"), pins=PINS)
    wait_until(lambda: _runs(late), "what the greedy client held is free")
    assert run(late) == MEBIBYTE


def _runs(model: Model) -> bool:
    try:
        return bool(run(model))
    except NnhalError:
        return False


@pytest.mark.slow
def test_a_run_that_takes_too_much_in_every_device_ends_and_others_go_on(
    small_bed: Testbed, client: Framework, tmp_path: Path
) -> None:
    small = client.load(grown(tmp_path, [1024], "Relu"))
    before = {name: small_bed.pid(name) for name in ("framework", "cpu_acc")}
    with connect(small_bed.framework) as greedy:
        hungry = greedy.load(grown(tmp_path, [200 << 10, 1 << 10], "Softmax"))  # 800 MiB for each of two values
        with pytest.raises(NnhalError, match=r"cpu_acc|cpu_ref"):
            for _ in range(20):  # what takes too much between two looks at the memory is not seen
                hungry.run({"x": np.ones(1, np.float32)})
    wait_until(lambda: small_bed.pid("cpu_acc") != before["cpu_acc"], "cpu_acc is started again", SECONDS)
    wait_until(lambda: _runs(small), "a device is back", SECONDS)
    assert run(small) == 1024
    assert small_bed.pid("framework") == before["framework"]
