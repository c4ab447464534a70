"""A model on two devices, layer by layer, with real device processes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from nnhal.errors import DeadObjectError
from nnhal_tools.diff import DiffReport, LayerDiff, Limits, diff_model
from tests.support.backends import EXTENSION_ID, build_extension
from tests.support.faulty_drivers import write_faulty_driver
from tests.support.onnx_models import onnx_model, random
from tests.support.processes import device_process
from tests.support.tflite_files import TfliteFile, booleans, floats, int8

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("warm_single_devices")]


@pytest.fixture(autouse=True)
def backends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "backends"
    write_faulty_driver(folder, "Wrong", {"LOGISTIC": "RELU6"})
    write_faulty_driver(folder, "Fusing", {"LOGISTIC": "RELU6"}, only_inside=True)
    write_faulty_driver(folder, "Mortal", deadly="LOGISTIC")
    write_faulty_driver(folder, "Crashing", crashing="LOGISTIC")
    write_faulty_driver(folder, "Endless", endless="LOGISTIC")
    write_faulty_driver(folder, "Picky", declined=("LOGISTIC",))
    monkeypatch.setenv("NNHAL_DEVICE_BACKEND_PATHS", str(folder))


@pytest.fixture
def network(tmp_path: Path) -> Path:
    nodes = [
        helper.make_node("Tanh", ["x"], ["a"], name="first"),
        helper.make_node("Sigmoid", ["a"], ["b"], name="second"),
        helper.make_node("Mul", ["b", "a"], ["c"], name="third"),
        helper.make_node("Softmax", ["c"], ["y"], name="last"),
    ]
    path = tmp_path / "network.onnx"
    onnx.save(onnx_model(nodes, {"x": [2, 8]}, ["y"]), path)
    return path


def compared(model: Path, dut: str, ref: str = "cpu_ref", limits: Limits | None = None) -> DiffReport:
    return diff_model(model, ref, dut, [{"x": random(2, 8)}], limits=limits or Limits())


def test_each_run_on_the_device_is_told_of(network: Path) -> None:
    told: list[str] = []
    diff_model(network, "cpu_ref", "cpu_acc", [{"x": random(2, 8)}], tell=told.append)
    assert told[0] == "the model on cpu_acc"
    assert all(each.endswith(" on cpu_acc") for each in told)
    assert len(set(told)) > 2, "layers are named"


def by_node(report: DiffReport) -> dict[str, LayerDiff]:
    return {" ".join(layer.nodes): layer for layer in report.layers}


@pytest.mark.parametrize("ref", ["cpu_ref", "onnxruntime"])
def test_a_wrong_kernel_is_found_and_what_follows_inherits_its_error(network: Path, ref: str) -> None:
    report = compared(network, "Wrong", ref)
    assert report.first is not None
    assert report.first.nodes == ("second",)
    origins = {name: layer.origin for name, layer in by_node(report).items()}
    assert origins == {"first": "", "second": "made", "third": "inherited", "last": "inherited"}
    third = by_node(report)["third"]
    assert third.made is not None
    assert third.made.largest < 1e-6 < 0.1 < (third.error.largest if third.error else 0)
    assert third.sources == (0, 1)


def test_a_device_agrees_with_itself_to_the_bit(network: Path) -> None:
    report = compared(network, "cpu_ref")
    assert all(layer.error is not None and layer.error.is_equal for layer in report.layers)
    assert (report.first, report.notes, report.declined) == (None, [], {})


def test_operations_that_are_fused_are_one_layer_and_said_to_be(network: Path) -> None:
    layers = by_node(compared(network, "Fusing"))
    assert list(layers) == ["first second", "first third", "last"]
    fused = layers["first second"]
    assert fused.fused == "fused: Fusing shows no value between its operations"
    assert fused.origin == "made"


def test_what_the_device_declines_the_helper_computes(network: Path) -> None:
    report = compared(network, "Picky")
    assert report.declined == {"LOGISTIC second": "OP: got LOGISTIC, allowed others"}
    assert {name: layer.runs_on for name, layer in by_node(report).items()} == {
        "first": "Picky",
        "second": "cpu_ref",
        "third": "Picky",
        "last": "Picky",
    }
    assert all(layer.error is not None and layer.error.is_equal for layer in report.layers)


def test_a_layer_of_control_flow_is_wrong_if_its_branch_is(tmp_path: Path) -> None:
    file = TfliteFile()
    branches = []
    for code in ("LOGISTIC", "TANH"):
        given = file.input("x", floats(2, 8))
        branches.append(file.subgraph(*file.operator(code, [given], {"y": floats(2, 8)})))
    inputs = [file.input("wanted", booleans()), file.input("x", floats(2, 8))]
    options = ("IfOptions", {"ThenSubgraphIndex": branches[0], "ElseSubgraphIndex": branches[1]})
    path = tmp_path / "choice.tflite"
    path.write_bytes(file.build(*file.operator("IF", inputs, {"y": floats(2, 8)}, options)))
    sample = {"wanted": np.array(True), "x": random(2, 8)}
    (layer,) = diff_model(path, "cpu_ref", "Wrong", [sample]).over
    assert (layer.kind, layer.origin) == ("IF", "made")


def test_a_device_that_declines_everything_is_not_said_to_agree(network: Path) -> None:
    with pytest.raises(ValueError, match=r"^null declines every operation of the model \(NO_IMPL: .*nothing"):
        compared(network, "null")


def test_a_device_that_dies_of_a_layer_by_itself_is_started_again(network: Path) -> None:
    report = compared(network, "Mortal")
    layers = by_node(report)
    assert {name: layer.origin for name, layer in layers.items()} == {
        "first": "",
        "second": "made",
        "third": "",
        "last": "",
    }
    assert layers["second"].made_over == ("Mortal ended with status 9, by itself",)
    assert layers["last"].made is not None
    assert "part at layer 1, LOGISTIC second: Mortal ended with status 9, by itself; made there" in report.summary()


def test_a_device_that_dies_of_a_model_is_asked_layer_by_layer_and_the_helper_goes_on(network: Path) -> None:
    report = compared(network, "Crashing")
    layers = by_node(report)
    assert {name: layer.over for name, layer in layers.items() if layer.over} == {
        "second": ("Crashing was killed by SIGSEGV",)
    }
    assert (layers["second"].origin, layers["third"].origin) == ("made", "")
    assert layers["third"].error is not None
    assert layers["third"].made is not None


def test_a_device_that_hangs_is_over_the_limits_at_the_deadline(network: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNHAL_DEVICE_STOP_SECONDS", "0.1")
    report = diff_model(network, "cpu_ref", "Endless", [{"x": random(2, 8)}], seconds=0.5)
    layers = by_node(report)
    assert [name for name, layer in layers.items() if layer.over] == ["second"]
    assert layers["second"].problem.endswith("since it did not finish within 0.5 s")
    assert layers["last"].made is not None


def test_a_running_device_that_dies_and_does_not_return_ends_the_comparison(
    network: Path, short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nnhal_tools.up.single._RETURN_SECONDS", 0.1)
    with device_process("Crashing", short_path) as (_, endpoint):
        words = (
            "ended the session as it ran the model, and nothing else can be run: .* is gone, and did not serve again"
        )
        with pytest.raises(DeadObjectError, match=words):
            compared(network, str(endpoint.directory))


def test_samples_fix_dimensions_that_the_model_leaves_open(tmp_path: Path) -> None:
    path = tmp_path / "open.onnx"
    onnx.save(onnx_model([helper.make_node("Tanh", ["x"], ["y"])], {"x": ["batch", 8]}, ["y"]), path)
    with pytest.raises(ValueError, match="open dimensions"):
        diff_model(path, "onnxruntime", "cpu_acc")
    for batches in ([2], [2, 3]):
        samples = [{"x": random(batch, 8)} for batch in batches]
        report = diff_model(path, "onnxruntime", "cpu_ref", samples)
        assert [layer.error.elements for layer in report.layers if layer.error] == [8 * sum(batches)]
        assert report.first is None


def test_a_driver_that_is_built_from_c_takes_part(
    network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_extension(tmp_path / "Acme_Native_backend.so")
    monkeypatch.setenv("NNHAL_DEVICE_BACKEND_PATHS", str(tmp_path))
    report = compared(network, EXTENSION_ID, "onnxruntime")
    assert (len(report.layers), report.first, report.declined) == (4, None, {})


def test_a_running_device_takes_part_by_its_directory(network: Path, short_path: Path) -> None:
    with device_process("Wrong", short_path) as (_, endpoint):
        report = compared(network, str(endpoint.directory), limits=Limits(min_sqnr=60))
        assert report.first is not None
        assert report.first.over[0].startswith("SQNR: ")


def test_a_quantised_file_is_compared_with_litert(tmp_path: Path) -> None:
    file = TfliteFile()
    x = file.input("x", int8(1, 8))
    (relu,) = file.operator("RELU", [x], {"relu": int8(1, 8)})
    (total,) = file.operator("ADD", [relu, x], {"sum": int8(1, 8, scale=0.1)}, ("AddOptions", {}))
    path = tmp_path / "small.tflite"
    path.write_bytes(file.build(total))
    given = {"x": np.arange(-40, 40, 10, dtype=np.int8).reshape(1, 8)}
    report = diff_model(path, "litert", "cpu_acc", [given, given])
    assert [layer.kind for layer in report.layers] == ["RELU", "ADD"]
    for layer in report.layers:
        assert layer.error is not None
        assert layer.error.elements == sum(layer.error.steps.values()) == 16
        assert layer.error.largest_step <= 1
    with pytest.raises(ValueError, match="got a file of TFLITE, --ref onnxruntime runs files of ONNX"):
        diff_model(path, "onnxruntime", "cpu_acc", [given])


def test_a_product_with_a_zero_point_off_by_one_is_found_without_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Path("examples/workbench/Acme_Npu_backend.py").read_text()
    right = "main=replace(main, operations=operations)"
    wrong = """main=replace(main, operands=tuple(
            replace(operand, zero_point=operand.zero_point + (number == main.operations[0].inputs[0]))
            for number, operand in enumerate(main.operands)))"""
    assert right in source
    (tmp_path / "Acme_Npu_backend.py").write_text(source.replace(right, wrong))
    monkeypatch.setenv("NNHAL_DEVICE_BACKEND_PATHS", str(tmp_path))
    file = TfliteFile()
    inputs = [file.input(name, int8(1, 16, 16, scale=0.01)) for name in ("x", "y")]
    (product,) = file.operator("MUL", inputs, {"z": int8(1, 16, 16, scale=0.0127)}, ("MulOptions", {}))
    path = tmp_path / "product.tflite"
    path.write_bytes(file.build(product))
    report = diff_model(path, "cpu_ref", "Npu")
    assert report.samples == 2
    (layer,) = report.over
    assert layer.error is not None
    assert (layer.error.largest_step, layer.origin) == (1, "made")
    assert layer.over[0].startswith("bias of ")
    assert diff_model(path, "cpu_ref", "cpu_acc").first is None
    (strict,) = diff_model(path, "cpu_ref", "Npu", limits=Limits(max_ulp=0)).over
    assert strict.over == ("1 step, allowed 0",)


KERNELS = """
from nnhal.kernels import KERNELS as RIGHT
from nnhal_devices.cpu_ref import interpreter
import numpy as np

def overflowing(op):
    (result,) = RIGHT[OperationType.LOGISTIC](op)
    return (np.where(np.abs(op.value(0)) > 80, np.float32(np.nan), result),)

def truncating(op):
    (result,) = RIGHT[OperationType.AVERAGE_POOL_2D](op)
    means = op.value(0).astype(int).sum((1, 2), keepdims=True) / (op.value(0).shape[1] * op.value(0).shape[2])
    return (np.trunc(means).astype(result.dtype),)

WRONG = {OperationType.LOGISTIC: overflowing, OperationType.AVERAGE_POOL_2D: truncating}

class Forgetting:  # does not write the outputs of a second run
    def __init__(self, workload):
        self._workload, self.runs = workload, 0

    def bind(self, inputs, outputs):
        self._bound, self._outputs = self._workload.bind(inputs, outputs), outputs
        return self

    def run(self, control):
        self.runs += 1
        before = self._outputs[0].data.copy()
        outcome = self._bound.run(control)
        if self.runs > 1:
            self._outputs[0].data[:] = before
        return outcome
"""
"""Kernels that are wrong for large exponents, and that truncate means; and a workload that runs once."""


def write_npu(folder: Path, prepared: str, more: str = "") -> None:
    """Write the driver Npu with these kernels; ``prepared`` is what its ``prepare`` returns."""
    source = Path("examples/workbench/Acme_Npu_backend.py").read_text()
    source = source.replace("    OperationType.MAX_POOL_2D: ", "    # ")
    given = "return self._reference.prepare(replace(model, model=compiled), options)"
    assert given in source
    (folder / "Acme_Npu_backend.py").write_text(source.replace(given, f"{more}return {prepared}") + KERNELS)


WRONG_KERNELS = "interpreter.KERNELS = {**RIGHT, **WRONG}\n        "


def test_what_no_sample_shows_is_found_by_harder_inputs(
    network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_npu(tmp_path, "self._reference.prepare(model, options)", WRONG_KERNELS)
    monkeypatch.setenv("NNHAL_DEVICE_BACKEND_PATHS", str(tmp_path))
    report = diff_model(network, "cpu_ref", "Npu", [{"x": random(2, 8)}])
    (layer,) = report.over
    assert (layer.nodes, layer.origin) == (("second",), "made")
    assert layer.over[0].endswith("no finite number, or no equal one, on one side, on inputs from -100 to 100")
    file = TfliteFile()
    x = file.input("x", int8(1, 8, 8, 16))
    window = {"FilterHeight": 8, "FilterWidth": 8, "StrideH": 1, "StrideW": 1, "Padding": 1}
    (mean,) = file.operator("AVERAGE_POOL_2D", [x], {"y": int8(1, 1, 1, 16)}, ("Pool2DOptions", window))
    path = tmp_path / "mean.tflite"
    path.write_bytes(file.build(mean))
    (layer,) = diff_model(path, "cpu_ref", "Npu", random_samples=1).over
    assert layer.over[0].startswith("bias of ")
    assert layer.over[0].endswith("on its inputs in other orders")


def test_a_second_run_that_gives_other_values_is_found_on_one_sample(
    network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_npu(tmp_path, "Forgetting(self._reference.prepare(model, options))")
    monkeypatch.setenv("NNHAL_DEVICE_BACKEND_PATHS", str(tmp_path))
    report = compared(network, "Npu")
    assert len(report.over) == 4
    told = {layer.over[0].partition(", between")[2] for layer in report.over}
    assert told == {" two runs of one prepared model on equal inputs"}
