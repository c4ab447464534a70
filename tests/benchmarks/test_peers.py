"""What the comparison with peers makes of its measurements, and the models that it uses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from benchmarks.peers.contenders import FLOOR, KSERVE, LARGE, MLSERVER, NATIVE, TINY, V2_BYTES, V2_SHARED, pass_through
from benchmarks.peers.environments import PeerError, installed
from benchmarks.peers.models import cnn, rectifier
from benchmarks.peers.ratios import ratios
from benchmarks.peers.rounds import Result, run_rounds
from nnhal_tools.bench.serve import Target, Transport


def _result(contender: str, rate: float, model: str = TINY) -> Result:
    return Result(model, 1, contender, rate, 1e6 / rate, 1e6 / rate, 0.0)


def test_native_is_compared_with_the_fastest_of_tritons_transports() -> None:
    results = [_result(NATIVE, 900), _result("Triton gRPC, bytes", 100), _result("Triton HTTP, bytes", 300)]
    (ratio,) = ratios(results, ())
    assert (ratio.ratio, ratio.aim, ratio.is_met) == (3.0, 4.0, False)
    assert ratio.p50 == pytest.approx(3.0) and "Triton HTTP, bytes" in ratio.what


def test_v2_is_compared_with_each_peer_that_there_is() -> None:
    found = ratios([_result(V2_BYTES, 200), _result(MLSERVER, 100), _result(KSERVE, 400)], ())
    assert [(ratio.ratio, ratio.is_met) for ratio in found] == [(2.0, True), (0.5, False)]
    assert ratios([_result(V2_BYTES, 200)], ()) == []


@pytest.mark.parametrize(("size", "aim"), [(64 << 10, None), (256 << 10, 1.0)])
def test_shared_memory_has_to_be_ahead_from_256_kib_on(size: int, aim: float | None) -> None:
    model = pass_through(size)
    (ratio,) = ratios([_result(V2_BYTES, 200, model), _result(V2_SHARED, 100, model)], (size,))
    assert (ratio.ratio, ratio.aim) == (0.5, aim)


def test_the_large_model_has_to_be_near_the_floor() -> None:
    (ratio,) = ratios([_result(NATIVE, 100, LARGE), _result(FLOOR, 110, LARGE)], ())
    assert ratio.is_met


def test_the_models_are_what_they_are_said_to_be() -> None:
    session = onnxruntime.InferenceSession(rectifier(1 << 10).SerializeToString())
    values = np.linspace(-1, 1, 256, dtype=np.float32).reshape(1, 256)
    np.testing.assert_array_equal(np.asarray(session.run(None, {"x": values})[0]), np.maximum(values, 0))
    convolutions = [node for node in cnn().graph.node if node.op_type == "Conv"]
    assert len(convolutions) == 10


@pytest.mark.slow
def test_contenders_take_turns_and_one_that_fails_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    file.write_bytes(rectifier(1 << 10).SerializeToString())
    said: list[str] = []
    contenders = {
        "floor": Target(Transport.IN_PROCESS, "", str(file)),
        "nobody": Target(Transport.GRPC, "127.0.0.1:1", TINY),
    }
    (result,) = run_rounds(TINY, contenders, 1, 0.02, 2, said.append)
    assert result.contender == "floor" and result.rate > 0
    assert any("nobody is left out" in line for line in said)


@pytest.mark.slow
def test_a_peer_that_cannot_be_installed_says_why(tmp_path: Path) -> None:
    (tmp_path / "kserve").touch()
    with pytest.raises(PeerError, match=r"kserve==.* cannot be installed"):
        installed("kserve", tmp_path)
