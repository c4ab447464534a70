from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from nnhal.arrays import Array
from nnhal_mlip.command.compiling import CompilationRequest, compile_model, target_options
from nnhal_mlip.command.folder import CompiledFolder, open_folder
from nnhal_mlip.command.plan_file import PlanFileError
from nnhal_mlip.command.rendering import simulation_parts
from nnhal_mlip.command.samples import write_arrays
from nnhal_mlip.command.sharing import SharingChoices
from nnhal_mlip.command.simulation import network_trace, simulate
from nnhal_mlip.program.errors import BinaryError
from nnhal_mlip.timing.profile import read_profile
from tests.support.consoles import printed_parts
from tests.support.mlip_onnx import write_encoder
from tests.support.mlip_tflite import write_tflite_convolution


@pytest.fixture
def image(tmp_path: Path) -> Path:
    write_arrays(tmp_path / "image.npz", {"image": np.random.default_rng(2).normal(size=(1, 1, 28, 28)).astype("f4")})
    return tmp_path / "image.npz"


def by_onnxruntime(folder: CompiledFolder, given: Path) -> list[Array]:
    session = onnxruntime.InferenceSession(str(folder.path / folder.plan.model.file))
    with np.load(given) as arrays:
        return [np.asarray(each) for each in session.run(None, dict(arrays))]


def test_outputs_are_those_of_the_float_network(compiled_digits: CompiledFolder, image: Path) -> None:
    result = simulate(compiled_digits, image)
    (expected,) = by_onnxruntime(compiled_digits, image)
    np.testing.assert_allclose(result.outputs["scores:0"], expected, atol=1e-3)


def test_several_binaries_and_the_host_run_in_order(compiled_parts: CompiledFolder, tmp_path: Path) -> None:
    given = tmp_path / "x.npz"
    write_arrays(given, {"x": np.random.default_rng(2).normal(size=(1, 4, 12, 12)).astype(np.float32)})
    result = simulate(compiled_parts, given)
    (expected,) = by_onnxruntime(compiled_parts, given)
    np.testing.assert_allclose(result.outputs["sum:0"], expected, atol=2e-2)
    assert list(result.runs) == ["tvmgen_mrvl_main_0", "tvmgen_mrvl_main_1"]


@pytest.mark.parametrize(
    ("quantize", "tiles", "tolerance"), [("fp16", 8, 2**-8), ("fp16", 1, 2**-8), ("int8", 4, 2**-3)]
)
def test_a_transformers_encoder_is_one_binary_near_the_float_network(
    quantize: str, tiles: int, tolerance: float, tmp_path: Path
) -> None:
    given = tmp_path / "x.npz"
    write_arrays(given, {"x": np.random.default_rng(2).normal(size=(1, 20, 16)).astype(np.float32)})
    path = write_encoder(tmp_path / "encoder.onnx")
    target = target_options("", "cn10ka", tiles, quantize, False)
    calibrated = (given,) if quantize == "int8" else ()
    compile_model(CompilationRequest(path, target, read_profile(), calibration=calibrated), tmp_path / "out")
    folder = open_folder(tmp_path / "out")
    result = simulate(folder, given)
    assert list(result.runs) == ["tvmgen_mrvl_main_0"]
    assert not [step.host for step in folder.plan.steps if step.host]
    (expected,) = by_onnxruntime(folder, given)
    np.testing.assert_allclose(result.outputs["sum:0"], expected, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("kind, tolerance", [("float", 2e-3), ("int8", 1)])
def test_tflite_networks_run_in_their_own_types(kind: str, tolerance: float, tmp_path: Path) -> None:
    path, inputs, expected = write_tflite_convolution(tmp_path / "model.tflite", kind)
    compile_model(
        CompilationRequest(path, target_options("", "cn10ka", 2, None, False), read_profile()), tmp_path / "out"
    )
    write_arrays(tmp_path / "x.npz", inputs)
    result = simulate(open_folder(tmp_path / "out"), tmp_path / "x.npz")
    (got,) = result.outputs.values()
    assert got.dtype == expected.dtype
    np.testing.assert_allclose(got.astype(np.float64), expected.astype(np.float64), atol=tolerance)


def test_int8_has_the_scales_of_the_calibration(digits: Path, images: Path, image: Path, tmp_path: Path) -> None:
    target = target_options("", "cn10ka", 2, "int8", False)
    request = CompilationRequest(digits, target, read_profile(), SharingChoices(), {}, (images,))
    compile_model(request, tmp_path / "out")
    folder = open_folder(tmp_path / "out")
    result = simulate(folder, image)
    np.testing.assert_allclose(result.outputs["scores:0"], by_onnxruntime(folder, image)[0], atol=0.05)


def test_a_binary_that_was_exchanged_is_refused(compiled_digits: CompiledFolder, image: Path) -> None:
    subgraph = compiled_digits.plan.subgraphs[0]
    other = replace(
        compiled_digits,
        plan=compiled_digits.plan.model_copy(
            update={"subgraphs": (subgraph.model_copy(update={"binary": subgraph.nodes}),)}
        ),
    )
    with pytest.raises(BinaryError):
        simulate(other, image)
    moved = compiled_digits.plan.model_copy(update={"sharing": SharingChoices(to_host=("conv1",))})
    with pytest.raises(PlanFileError, match=r"shares digits\.onnx in another way; compile the model again"):
        simulate(replace(compiled_digits, plan=moved), image)


def test_a_trace_has_all_binaries_one_behind_the_other(compiled_parts: CompiledFolder) -> None:
    simulators = compiled_parts.simulators()
    trace = network_trace(compiled_parts.plan, simulators)
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    host = [span for span in spans if (span["pid"], span["tid"]) == (0, 0)]
    first = max(
        span["ts"] + span["dur"] for span in spans if span.get("args", {}).get("layer") and "first" in span["name"]
    )
    second = min(span["ts"] for span in spans if span["name"] == "second")
    assert first < second
    total = sum(simulator.timeline.total for simulator in simulators.values()) / 1000 + 2 * 5
    total += sum(span["dur"] for span in host)
    assert max(span["ts"] + span["dur"] for span in spans) == pytest.approx(total)
    assert "host: bend" in [span["name"] for span in host]
    named = [(event["name"], event["pid"], event["tid"]) for event in trace["traceEvents"] if event["ph"] == "M"]
    assert len(named) == len(set(named))
    assert trace["otherData"]["modelled"] is True


def test_the_text_has_outputs_and_modelled_times(compiled_digits: CompiledFolder, image: Path) -> None:
    result = simulate(compiled_digits, image)
    text = printed_parts(simulation_parts(compiled_digits.plan, result))
    assert "scores:0 float32 [1, 10]: [" in text
    assert "modelled" in text and "firmware" in text
