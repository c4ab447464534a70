"""What a compilation cache keeps of models that cpu_acc has compiled."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from onnx import ModelProto, TensorProto

from nnhal.arrays import Array
from nnhal.resolved import ResolvedModel
from nnhal.types import Operand, OperandType, OperationType
from nnhal_devices.cpu_acc import artifact
from nnhal_devices.cpu_acc.artifact import read_artifact
from nnhal_devices.cpu_acc.driver import CpuAcc
from nnhal_devices.cpu_acc.workload import OnnxWorkload
from nnhal_devices.driver import Argument, Control, DriverOptions, PrepareOptions
from nnhal_devices.host.models import resolve
from tests.support.caching import Sample, chain, convolutional_network, per_channel_convolution
from tests.support.models import Recipe

CACHED = PrepareOptions(is_cached=True)


def compiled(sample: Sample) -> tuple[ResolvedModel, bytes]:
    """A model, and the artifact of its workload."""
    model = resolve(sample.model)
    return model, CpuAcc(DriverOptions()).prepare(model, CACHED).artifact()


def result(workload: OnnxWorkload, sample: Sample) -> Array:
    """The bytes of the only output."""
    main = sample.model.main
    given = [Argument(array.reshape(-1).view(np.uint8), array.shape) for array in sample.inputs]
    output = main.operands[main.output_indexes[0]]
    memory = np.zeros(4096, np.uint8)
    workload.bind(given, [Argument(memory, output.dimensions)]).run(Control())
    return memory


@pytest.mark.parametrize(
    "sample",
    [convolutional_network(), per_channel_convolution(), chain(OperandType.TENSOR_FLOAT32, OperationType.ADD)],
    ids=["floats", "bytes", "chain"],
)
def test_a_restored_model_computes_the_same(sample: Sample) -> None:
    model, kept = compiled(sample)
    driver = CpuAcc(DriverOptions())
    restored = driver.restore(model, PrepareOptions(artifact=kept))
    assert restored is not None
    np.testing.assert_array_equal(result(restored, sample), result(driver.prepare(model, PrepareOptions()), sample))


def test_the_artifact_is_given_once_and_only_if_the_model_is_to_be_cached() -> None:
    model = resolve(convolutional_network().model)
    workload = CpuAcc(DriverOptions()).prepare(model, CACHED)
    assert workload.artifact()
    assert not workload.artifact()
    assert not CpuAcc(DriverOptions()).prepare(model, PrepareOptions()).artifact()


def test_what_was_made_of_another_model_is_not_used() -> None:
    _, kept = compiled(convolutional_network())
    assert read_artifact(kept, resolve(per_channel_convolution().model)) is None


def test_what_was_made_on_another_machine_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    model, kept = compiled(convolutional_network())
    assert read_artifact(kept, model) is not None
    monkeypatch.setattr(artifact, "_machine", lambda: b"another")
    assert read_artifact(kept, model) is None


def test_bytes_that_are_no_artifact_are_not_used() -> None:
    model, kept = compiled(convolutional_network())
    driver = CpuAcc(DriverOptions())
    for data in (b"", kept[:40], kept[:-1], kept[:80] + bytes(len(kept) - 80), b"x" + kept[1:]):
        assert driver.restore(model, PrepareOptions(artifact=data)) is None


def test_an_artifact_cannot_have_a_device_read_files() -> None:
    model, kept = compiled(convolutional_network())
    graph = read_artifact(kept, model)
    assert graph is not None
    proto = ModelProto.FromString(graph.content)
    proto.graph.initializer[0].ClearField("raw_data")
    proto.graph.initializer[0].data_location = TensorProto.EXTERNAL
    proto.graph.initializer[0].external_data.add(key="location", value="passwords")
    forged = artifact.write_artifact(replace(graph, content=proto.SerializeToString()), model)
    assert read_artifact(forged, model) is None


def test_weights_that_stay_as_they_are_lie_in_the_model_only() -> None:
    recipe = Recipe()
    given = recipe.input(OperandType.TENSOR_FLOAT32, (1, 64))
    weights = np.random.default_rng(3).standard_normal((64, 64))
    constants = [recipe.constant(OperandType.TENSOR_FLOAT32, values) for values in (weights, np.zeros(64))]
    layer = recipe.operation(
        OperationType.FULLY_CONNECTED,
        [given, *constants, *recipe.integers(0)],
        Operand(OperandType.TENSOR_FLOAT32, (1, 64)),
    )
    sample = Sample(recipe.build(layer).model, (np.ones((1, 64), np.float32),))
    model, kept = compiled(sample)
    assert len(kept) < weights.astype(np.float32).nbytes
    restored = CpuAcc(DriverOptions()).restore(model, PrepareOptions(artifact=kept))
    assert restored is not None
    values = result(restored, sample)[: 64 * 4].view(np.float32)
    np.testing.assert_allclose(values, weights.astype(np.float32).sum(axis=1), rtol=1e-4, atol=1e-4)
