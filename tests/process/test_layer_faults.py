"""Faults on purpose: wrong values of layers, with which the rest of a model is computed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from nnhal.arrays import Array
from nnhal.remote import RemoteDevice
from nnhal.remote.admin import DeviceAdmin
from nnhal.types import ErrorStatus, Model, Operand, OperandType, OperationType
from nnhal_frontends.onnx import import_onnx
from nnhal_tools.cases.execution import run_on
from nnhal_tools.diff import diff_model
from tests.support.additions import ELEMENTS, addition_in_ashmem
from tests.support.caching import CachingDevice, Sample
from tests.support.calls import WAYS, held_by, session_with
from tests.support.far_devices import far_device
from tests.support.faulty import METHODS_OF_WAYS, FaultyDevice, fault, faulty_device
from tests.support.models import Recipe
from tests.support.refusals import FAILURE, INVALID, refusal
from tests.support.stateful_models import turning
from tests.support.subgraphs import counting_loop
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow
DRIVERS = ("cpu_ref", "cpu_acc", "gpu_acc")
A, B = 0.5, 0.25
LARGEST = np.finfo(np.float32).max
WRONG: dict[str, tuple[dict[str, Any], Callable[[Array], bool]]] = {
    "NaN in the sum": ({"layer": 0, "how": "nan"}, lambda total: bool(np.isnan(total).all())),
    "the largest value in the sum": (
        {"layer": "ADD", "how": "saturated"},
        lambda total: np.allclose(total, np.float32(np.tanh(LARGEST)) * B),
    ),
    "the largest value in the tangent": (
        {"layer": [1], "how": "saturated"},
        lambda total: np.allclose(total, LARGEST * B),
    ),
    "one bit of the sum": (
        {"layer": "0", "how": "bit_flips"},
        lambda total: sorted(np.unique(total, return_counts=True)[1]) == [1, ELEMENTS - 1],
    ),
}
"""Faults in tanh(a + b) * b, and whether the output follows from them."""


def three_layers() -> Model:
    """Return tanh(a + b) * b."""
    recipe, code = Recipe(), OperandType.TENSOR_FLOAT32
    result = Operand(code, (ELEMENTS,))
    a, b = recipe.input(code, (ELEMENTS,)), recipe.input(code, (ELEMENTS,))
    (none,) = recipe.integers(0)
    total = recipe.operation(OperationType.ADD, [a, b, none], result)
    tangent = recipe.operation(OperationType.TANH, [total], result)
    return recipe.build(recipe.operation(OperationType.MUL, [tangent, b, none], result)).model


@pytest.fixture(scope="module", params=DRIVERS)
def device(request: pytest.FixtureRequest) -> Iterator[FaultyDevice]:
    with tempfile.TemporaryDirectory(prefix="nnhal-") as name, faulty_device(Path(name), driver=request.param) as found:
        yield found


@pytest.fixture
def healthy(device: FaultyDevice) -> Iterator[FaultyDevice]:
    """The device, without faults after a test."""
    yield device
    device.control.clear()


@pytest.mark.parametrize("name", WRONG)
def test_what_follows_a_layer_computes_with_its_wrong_values(healthy: FaultyDevice, name: str) -> None:
    keys, is_wrong = WRONG[name]
    with RemoteDevice(healthy.endpoint) as remote:
        prepared, run = remote.prepare_model(three_layers()), addition_in_ashmem()
        healthy.control.set(fault("values", times=1, **keys))
        run.fill(A, B)
        prepared.execute(run.request)
        assert is_wrong(run.total()), run.total()
        run.fill(A, B)
        prepared.execute(run.request)
        np.testing.assert_allclose(run.total(), np.tanh(A + B) * B, rtol=1e-5)
        assert healthy.control.faults()[0].injected == 1


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_execution_has_wrong_layers(healthy: FaultyDevice, way: str) -> None:
    healthy.control.set(fault("values", METHODS_OF_WAYS[way], layer="ADD", how="nan"))
    with session_with(healthy.endpoint) as session:
        run = addition_in_ashmem()
        run.fill(A, B)
        WAYS[way](held_by(session, three_layers()), run.request)()
    assert np.isnan(run.total()).all()


def test_models_without_the_layer_do_not_meet_the_fault(faulty: FaultyDevice) -> None:
    faulty.control.set(fault("values", layer=["7", "CONV_2D", "0:0"], how="nan"))
    with RemoteDevice(faulty.endpoint) as remote:
        prepared, run = remote.prepare_model(three_layers()), addition_in_ashmem()
        run.fill(A, B)
        prepared.execute(run.request)
        np.testing.assert_allclose(run.total(), np.tanh(A + B) * B, rtol=1e-5)
    assert [(state.met, state.injected) for state in faulty.control.faults()] == [(0, 0)]


def test_a_layer_of_a_loop_is_wrong_each_time(faulty: FaultyDevice) -> None:
    """while i < n: i = i + n. The loop ends when the sum is the largest value."""
    sample = Sample(counting_loop(), (np.array([-1], np.int32), np.array([2], np.int32)))
    with session_with(faulty.endpoint) as wire:
        device = CachingDevice(wire)
        prepared = device.prepare(sample.model)
        (right,) = device.run(prepared, sample)
        assert right.view(np.int32) == 3
        faulty.control.set(fault("values", layer="1:0", how="saturated"))
        (wrong,) = device.run(prepared, sample)
        assert wrong.view(np.int32) == np.iinfo(np.int32).max


def computed_in_loop(device: FaultyDevice, seconds: float | None = None) -> Array:
    """Return 0.5 plus 3, in three turns of a loop."""
    with RemoteDevice(device.endpoint) as remote:
        inputs: list[Array] = [np.array([3], np.int64), np.array([0.5], np.float32)]
        ((_, total),) = run_on(remote, import_onnx(onnx.load_from_string(turning())).model, [inputs], seconds)
    return total


def test_a_node_of_a_loops_body_is_wrong_by_its_path(faulty: FaultyDevice) -> None:
    assert computed_in_loop(faulty) == 3.5
    for layer in ("y/body/w", "*/body/w", "Add"):
        faulty.control.set(fault("values", layer=layer, how="saturated", name="it"))
        assert computed_in_loop(faulty) == LARGEST
        assert faulty.control.faults()[0].injected == 1
    faulty.control.set(fault("values", layer=["w", "y/w", "y/else_branch/w"], how="saturated", name="it"))
    assert computed_in_loop(faulty) == 3.5


def test_a_node_of_a_branch_is_wrong_if_the_branch_is_taken(faulty: FaultyDevice) -> None:
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    taken = helper.make_tensor_value_info("taken", TensorProto.BOOL, [1])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    branches: dict[str, Any] = {
        f"{word}_branch": helper.make_graph(
            [helper.make_node(kind, ["x"], [f"{word}_y"], name=word)],
            word,
            [],
            [helper.make_tensor_value_info(f"{word}_y", TensorProto.FLOAT, [1])],
        )
        for word, kind in (("then", "Neg"), ("else", "Exp"))
    }
    graph = helper.make_graph([helper.make_node("If", ["taken"], ["y"], **branches)], "g", [taken, given], [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    faulty.control.set(fault("values", layer="y/then_branch/then", how="saturated"))
    with RemoteDevice(faulty.endpoint) as remote:
        samples = [[np.array([way]), np.zeros(1, np.float32)] for way in (True, False)]
        ((wrong,), (right,)) = run_on(remote, import_onnx(model).model, samples)
    assert (wrong.item(), right.item()) == (LARGEST, 1.0)


def test_a_node_of_a_loops_body_fails_or_takes_long(faulty: FaultyDevice) -> None:
    """Longer than any deadline: none has passed before the body is computed, since that delay does not end."""
    faulty.control.set(fault("error", layer="y/body/w", status="RESOURCE_EXHAUSTED_TRANSIENT", name="it"))
    refusal(lambda: computed_in_loop(faulty), ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT, "injected fault 'it'")
    faulty.control.set(fault("delay", layer="y/body/w", ms=3_600_000, name="it"))
    refusal(lambda: computed_in_loop(faulty, 0.5), ErrorStatus.MISSED_DEADLINE_TRANSIENT, "")
    faulty.control.set(fault("delay", layer="y/body/w", ms=0.01, name="it"))
    assert computed_in_loop(faulty) == 3.5


def test_a_node_of_a_loops_body_hangs_until_its_fault_is_cleared(faulty: FaultyDevice) -> None:
    faulty.control.set(fault("hang", layer="y/body/w"))
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(computed_in_loop, faulty)
        wait_until(lambda: faulty.control.faults()[0].injected == 1, "the run that hangs")
        assert not run.done()
        faulty.control.clear()
        assert run.result() == 3.5


def test_diff_finds_the_operation_in_whose_body_a_fault_is_planted(faulty: FaultyDevice, tmp_path: Path) -> None:
    path = tmp_path / "turning.onnx"
    path.write_bytes(turning())
    faulty.control.set(fault("values", layer="y/body/w", how="saturated"))
    sample = {"turns": np.array([3]), "before": np.array([0.5], np.float32)}
    report = diff_model(path, "cpu_ref", str(faulty.endpoint.directory), [sample])
    assert report.first is not None
    assert (report.first.nodes, report.first.origin) == (("Loop_0",), "made")


@pytest.mark.parametrize("what", ["delay", "hang", "error", "death"])
def test_layers_are_of_executions(faulty: FaultyDevice, what: str) -> None:
    more = {"ms": 1} if what == "delay" else {}
    refusal(
        lambda: faulty.control.set(fault(what, "prepare", layer=0, **more)),
        INVALID,
        "got layers for prepare, expected executions",
    )


def test_a_delay_of_a_layer_is_the_layers_own_time(healthy: FaultyDevice) -> None:
    healthy.control.set(fault("delay", layer="TANH", ms=60_000))
    with (
        RemoteDevice(healthy.endpoint, "test") as remote,
        DeviceAdmin(healthy.endpoint, healthy.child.admin_key) as admin,
    ):
        told = admin.operation_times(remote.prepare_model(three_layers()).handle)
    slow = [list(each.operations) for each in told.times if each.duration >= 60e9]
    assert slow == ([] if told.is_modelled else [[1]])


def test_an_output_that_does_not_depend_on_the_layer_stays_right(healthy: FaultyDevice) -> None:
    recipe, code = Recipe(), OperandType.TENSOR_FLOAT32
    given, result = recipe.input(code, (ELEMENTS,)), Operand(code, (ELEMENTS,))
    halves = [recipe.operation(operation, [given], result) for operation in (OperationType.TANH, OperationType.SIN)]
    sample = Sample(recipe.build(*halves).model, (np.linspace(-1, 1, ELEMENTS, dtype=np.float32),))
    with session_with(healthy.endpoint) as wire:
        device = CachingDevice(wire)
        prepared = device.prepare(sample.model)
        right = device.run(prepared, sample)
        healthy.control.set(fault("values", layer="SIN", how="nan"))
        tangent, sine = device.run(prepared, sample)
    np.testing.assert_array_equal(tangent, right[0])
    assert np.isnan(sine.view(np.float32)).all()


def test_layers_of_a_model_whose_weights_come_from_a_cache_are_refused_in_words(tmp_path: Path) -> None:
    recipe, code = Recipe(), OperandType.TENSOR_FLOAT32
    given, row = recipe.input(code, (1, 512)), recipe.constant(code, np.arange(512).reshape(1, 512))
    total = recipe.operation(OperationType.ADD, [given, row, *recipe.integers(0)], Operand(code, (1, 512)))
    sample = Sample(recipe.build(total).model, (np.ones((1, 512), np.float32),))
    with faulty_device(tmp_path, driver="cpu_acc") as device, session_with(device.endpoint) as wire:
        caching = CachingDevice(wire)
        entry = caching.entry(tmp_path / "entry")
        prepared = caching.prepare(sample.model, entry.create())
        restored = caching.restore(entry.open())
        device.control.set(fault("values", layer="ADD", how="nan"))
        (total_of_prepared,) = caching.run(prepared, sample)
        assert np.isnan(total_of_prepared.view(np.float32)).all()
        refusal(lambda: caching.run(restored, sample), FAILURE, "restored from a cache, since its constants are")


@pytest.mark.parametrize("layer", [-1, True, 2.5, [0, {}]])
def test_layers_are_numbers_and_patterns(faulty: FaultyDevice, layer: object) -> None:
    words = "fault 1, layer: got .*, expected the number of a layer from 0 on, or a pattern of names or types"
    refusal(lambda: faulty.control.set(fault("values", layer=layer)), INVALID, words)


def test_layers_are_wrong_where_they_are_computed(tmp_path: Path) -> None:
    with (
        far_device(tmp_path) as far,
        faulty_device(tmp_path, far.option, driver="remote") as device,
    ):
        refusal(
            lambda: device.control.set(fault("values", layer=0)),
            INVALID,
            "layer: cpu_ref@.* computes on another host; set the fault there",
        )
