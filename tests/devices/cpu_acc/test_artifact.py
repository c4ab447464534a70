"""Parts of models that a compilation cache keeps for cpu_acc."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from onnx import AttributeProto, ModelProto, TensorProto, helper, numpy_helper

from nnhal.arrays import Array
from nnhal.resolved import ResolvedModel
from nnhal.types import Operand, OperandType, OperationType
from nnhal.types.layout import is_extension
from nnhal_devices.cpu_acc import artifact
from nnhal_devices.cpu_acc.artifact import read_artifact, weights_of
from nnhal_devices.cpu_acc.driver import CpuAcc
from nnhal_devices.driver import Argument, Control, DriverOptions, PrepareOptions, Workload
from nnhal_devices.ethos_n.driver import EthosN
from nnhal_devices.gpu_acc.driver import GpuAcc
from nnhal_devices.host.sessions.models import resolve
from nnhal_frontends.onnx import import_onnx
from tests.support.caching import Sample, chain, convolutional_network, per_channel_convolution
from tests.support.models import Recipe
from tests.support.onnx_models import onnx_model, random

CACHED = PrepareOptions(is_cached=True)


def compiled(sample: Sample) -> tuple[ResolvedModel, bytes]:
    model = resolve(sample.model)
    kept = CpuAcc(DriverOptions()).prepare(model, CACHED).artifact()
    assert kept
    return model, b"".join(kept)


def result(workload: Workload, sample: Sample) -> Array:
    """The bytes of the only output."""
    main = sample.model.main
    given = [Argument(array.reshape(-1).view(np.uint8), array.shape) for array in sample.inputs]
    output = main.operands[main.output_indexes[0]]
    memory = np.zeros(4096, np.uint8)
    workload.bind(given, [Argument(memory, output.dimensions)]).run(Control())
    return memory


@pytest.mark.parametrize("driver", [EthosN(DriverOptions()), GpuAcc(DriverOptions())], ids=["ethos_n", "gpu_acc"])
def test_a_driver_that_has_its_arithmetic_of_cpu_acc_restores_it(
    driver: EthosN | GpuAcc, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = per_channel_convolution() if isinstance(driver, EthosN) else convolutional_network()
    model = resolve(sample.model)
    first = driver.prepare(model, CACHED)
    kept = b"".join(first.artifact())
    monkeypatch.setattr(CpuAcc, "prepare", lambda *_: pytest.fail("it was compiled again"))
    restored = driver.prepare(model, PrepareOptions(artifact=kept))
    np.testing.assert_array_equal(result(restored, sample), result(first, sample))


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


def test_a_restored_model_says_why_it_tells_no_times_of_operations() -> None:
    model, kept = compiled(convolutional_network())
    restored = CpuAcc(DriverOptions()).restore(model, PrepareOptions(artifact=kept))
    assert restored is not None
    told = restored.operation_times(Control())
    assert told.times == ()
    assert "prepare it without the cache" in told.note


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
    for data in (b"", kept[:40], kept[: len(kept) // 2], kept[:80] + bytes(len(kept) - 80), b"x" + kept[1:]):
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
    assert read_artifact(b"".join(forged), model) is None


@pytest.mark.parametrize("is_named_so", [False, True], ids=["a name of its own", "the name of a weight"])
def test_a_tensor_within_a_node_cannot_have_a_device_read_files(is_named_so: bool) -> None:
    model, kept = compiled(layer(64))
    graph = read_artifact(kept, model)
    assert graph is not None
    name = next(iter(graph.weights)) if is_named_so else "passwords"
    proto = ModelProto.FromString(graph.content)
    forged = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
    forged.external_data.add(key="location", value=name)
    proto.graph.node.add(op_type="Constant", output=["forged"]).attribute.add(
        name="value", type=AttributeProto.TENSOR, t=forged
    )
    written = artifact.write_artifact(replace(graph, content=proto.SerializeToString()), model)
    assert read_artifact(b"".join(written), model) is None


def test_a_graph_may_have_names_that_look_like_the_key_of_a_file() -> None:
    model, kept = compiled(layer(64))
    graph = read_artifact(kept, model)
    assert graph is not None
    proto = ModelProto.FromString(graph.content)
    proto.graph.doc_string = "its location"
    written = artifact.write_artifact(replace(graph, content=proto.SerializeToString()), model)
    assert read_artifact(b"".join(written), model) is not None


def layer(width: int) -> Sample:
    """A layer of as many weights as ``width`` squared."""
    recipe = Recipe()
    given = recipe.input(OperandType.TENSOR_FLOAT32, (1, width))
    weights = np.random.default_rng(3).standard_normal((width, width))
    constants = [recipe.constant(OperandType.TENSOR_FLOAT32, values) for values in (weights, np.zeros(width))]
    result = recipe.operation(
        OperationType.FULLY_CONNECTED,
        [given, *constants, *recipe.integers(0)],
        Operand(OperandType.TENSOR_FLOAT32, (1, width)),
    )
    return Sample(recipe.build(result).model, (np.ones((1, width), np.float32),))


def branching() -> Sample:
    """A message whose branches have large weights of their own."""
    branches = [
        helper.make_graph(
            [helper.make_node("MatMul", ["x", f"w{number}"], [f"y{number}"])],
            "branch",
            [],
            [helper.make_tensor_value_info(f"y{number}", TensorProto.FLOAT, [1, 20])],
            [numpy_helper.from_array(random(20, 20, seed=number), f"w{number}")],
        )
        for number in range(2)
    ]
    nodes = [
        helper.make_node("Greater", ["x", "limit"], ["over"]),
        helper.make_node("ReduceMax", ["as_numbers"], ["any"], keepdims=0),
        helper.make_node("Cast", ["any"], ["chosen"], to=TensorProto.BOOL),
        helper.make_node("If", ["chosen"], ["y"], then_branch=branches[0], else_branch=branches[1]),
    ]
    nodes.insert(1, helper.make_node("Cast", ["over"], ["as_numbers"], to=TensorProto.INT32))
    model = onnx_model(nodes, {"x": [1, 20]}, ["y"], {"limit": np.float32(0.5)})
    return Sample(import_onnx(model).model, (np.ones((1, 20), np.float32),))


@pytest.mark.parametrize("sample", [convolutional_network(), layer(48), branching()], ids=["network", "layer", "If"])
def test_a_model_is_restored_without_its_weights(sample: Sample) -> None:
    driver = CpuAcc(DriverOptions())
    model, kept = compiled(sample)
    expected = result(driver.prepare(model, PrepareOptions()), sample)
    main = dict(model.constants[0])
    for index in driver.replaced_constants(model):
        main[index] = np.zeros_like(main[index])
    restored = driver.restore(replace(model, constants=(main, *model.constants[1:])), PrepareOptions(artifact=kept))
    assert restored is not None
    np.testing.assert_array_equal(result(restored, sample), expected)


def test_weights_are_replaced_but_neither_messages_nor_shapes() -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["r"]), helper.make_node("Erf", ["r"], ["y"])]
    model = import_onnx(onnx_model(nodes, {"x": [1, 64]}, ["y"], {"w": random(64, 64)})).resolved()
    replaced = weights_of(model)
    assert [model.constants[0][index].nbytes for index in replaced] == [64 * 64 * 4]
    for operation in model.model.main.operations:
        if is_extension(operation.type):
            assert operation.inputs[0] not in replaced


def test_a_model_of_few_operations_and_large_weights_is_not_cached() -> None:
    model = resolve(layer(128).model)
    assert CpuAcc(DriverOptions()).prepare(model, CACHED).artifact() is None
