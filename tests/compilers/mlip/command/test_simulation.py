from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from nnhal.arrays import Array
from nnhal_mlip.command.compiling import CompilationRequest, CompiledNetwork, compile_network, target_options
from nnhal_mlip.command.rendering import simulation_parts
from nnhal_mlip.command.samples import write_arrays
from nnhal_mlip.command.simulation import network_trace, simulate
from nnhal_mlip.flow.flow_partition import FlowOptions
from nnhal_mlip.timing.profile import read_profile
from tests.support.consoles import printed_parts
from tests.support.mlip_onnx import write_encoder
from tests.support.mlip_tflite import write_tflite_convolution


@pytest.fixture
def image(tmp_path: Path) -> Path:
    write_arrays(tmp_path / "image.npz", {"image": np.random.default_rng(2).normal(size=(1, 1, 28, 28)).astype("f4")})
    return tmp_path / "image.npz"


def by_onnxruntime(network: CompiledNetwork, given: Path) -> list[Array]:
    session = onnxruntime.InferenceSession(str(network.request.model))
    with np.load(given) as arrays:
        return [np.asarray(each) for each in session.run(None, dict(arrays))]


def test_outputs_are_those_of_the_float_network(compiled_digits: CompiledNetwork, image: Path) -> None:
    result = simulate(compiled_digits, image)
    (expected,) = by_onnxruntime(compiled_digits, image)
    np.testing.assert_allclose(result.outputs["scores:0"], expected, atol=1e-3)


def test_several_binaries_and_the_host_run_in_order(compiled_parts: CompiledNetwork, tmp_path: Path) -> None:
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
    network = compile_network(CompilationRequest(path, target, read_profile(), calibration=calibrated))
    result = simulate(network, given)
    assert list(result.runs) == ["tvmgen_mrvl_main_0"]
    assert not network.host
    (expected,) = by_onnxruntime(network, given)
    np.testing.assert_allclose(result.outputs["sum:0"], expected, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("kind, tolerance", [("float", 2e-3), ("int8", 1)])
def test_tflite_networks_run_in_their_own_types(kind: str, tolerance: float, tmp_path: Path) -> None:
    path, inputs, expected = write_tflite_convolution(tmp_path / "model.tflite", kind)
    request = CompilationRequest(path, target_options("", "cn10ka", 2, None, False), read_profile())
    write_arrays(tmp_path / "x.npz", inputs)
    result = simulate(compile_network(request), tmp_path / "x.npz")
    (got,) = result.outputs.values()
    assert got.dtype == expected.dtype
    np.testing.assert_allclose(got.astype(np.float64), expected.astype(np.float64), atol=tolerance)


def test_int8_has_the_scales_of_the_calibration(digits: Path, images: Path, image: Path) -> None:
    target = target_options("", "cn10ka", 2, "int8", False)
    request = CompilationRequest(digits, target, read_profile(), FlowOptions(), {}, (images,))
    network = compile_network(request)
    result = simulate(network, image)
    np.testing.assert_allclose(result.outputs["scores:0"], by_onnxruntime(network, image)[0], atol=0.05)


def test_a_trace_has_all_binaries_one_behind_the_other(compiled_parts: CompiledNetwork) -> None:
    trace = network_trace(compiled_parts)
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    host = [span for span in spans if (span["pid"], span["tid"]) == (0, 0)]
    first = max(
        span["ts"] + span["dur"] for span in spans if span.get("args", {}).get("layer") and "first" in span["name"]
    )
    second = min(span["ts"] for span in spans if span["name"] == "second")
    assert first < second
    total = sum(binary.times.total for binary in compiled_parts.binaries) / 1000 + 2 * 5
    total += sum(span["dur"] for span in host)
    assert max(span["ts"] + span["dur"] for span in spans) == pytest.approx(total)
    assert "host: bend" in [span["name"] for span in host]
    named = [(event["name"], event["pid"], event["tid"]) for event in trace["traceEvents"] if event["ph"] == "M"]
    assert len(named) == len(set(named))
    assert trace["otherData"]["modelled"] is True


def test_the_text_has_outputs_and_modelled_times(compiled_digits: CompiledNetwork, image: Path) -> None:
    result = simulate(compiled_digits, image)
    text = printed_parts(simulation_parts(compiled_digits, result))
    assert "scores:0 float32 [1, 10]: [" in text
    assert "modelled" in text and "firmware" in text
