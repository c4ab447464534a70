"""nnhal beside other servers: the aims, and contenders that take turns."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from benchmarks.environments import InstallationError, interpreter
from benchmarks.load import GRPC, IN_PROCESS, Load, Target
from benchmarks.models import cnn, rectifier
from benchmarks.peers.__main__ import Contender, Result, aims_of, report_of, run_rounds


def _result(contender: str, rate: float, model: str = "tiny", concurrency: int = 1) -> Result:
    return Result(model, concurrency, contender, rate, 1e6 / rate, 1e6 / rate, 0.0, 0.0)


def test_native_is_compared_with_the_fastest_of_tritons_transports() -> None:
    results = [("nnhal native, in place", 900), ("Triton gRPC, bytes", 100), ("Triton HTTP, bytes", 300)]
    (aim,) = aims_of([_result(*each) for each in results])
    assert (aim.figure, aim.limit, aim.is_met) == (1 / 3, 1 / 4, False)
    assert "Triton HTTP, bytes" in aim.what


def test_v2_is_compared_with_each_peer_that_there_is() -> None:
    own = _result("nnhal gRPC, bytes", 200)
    found = list(aims_of([own, _result("MLServer gRPC, bytes", 100), _result("KServe gRPC, bytes", 400)]))
    assert [(aim.figure, aim.is_met) for aim in found] == [(0.5, True), (2.0, False)]
    assert list(aims_of([own])) == []


def test_the_large_model_has_to_be_near_the_floor() -> None:
    for rate, is_met in ((92, True), (90, False)):
        results = [("nnhal native, in place", rate), ("ONNX Runtime in process", 100)]
        (aim,) = aims_of([_result(name, each, "large") for name, each in results])
        assert aim.is_met == is_met


def test_the_fastest_of_each_model_comes_first_in_the_table() -> None:
    report = report_of([_result("slow", 1), _result("fast", 2), _result("other", 1, "cnn")])
    assert list(report.tables[0].columns[2].cells) == ["fast", "slow", "other"]


def test_the_models_are_what_they_are_said_to_be() -> None:
    session = onnxruntime.InferenceSession(rectifier(1 << 10).SerializeToString())
    values = np.linspace(-1, 1, 256, dtype=np.float32).reshape(1, 256)
    np.testing.assert_array_equal(np.asarray(session.run(None, {"x": values})[0]), np.maximum(values, 0))
    convolutions = [node for node in cnn().graph.node if node.op_type == "Conv"]
    assert len(convolutions) == 10


@pytest.fixture
def in_process(tmp_path: Path) -> Target:
    file = tmp_path / "model.onnx"
    file.write_bytes(rectifier(1 << 10).SerializeToString())
    return Target(IN_PROCESS, "", str(file), {"x": (1, 256)}, False, (1, 256))


@pytest.mark.slow
def test_contenders_take_turns_and_one_that_fails_is_left_out(
    in_process: Target, capsys: pytest.CaptureFixture[str]
) -> None:
    nobody = Target(GRPC, "127.0.0.1:1", "tiny", {"x": (1, 256)})
    contenders = {"floor": Contender(in_process), "nobody": Contender(nobody)}
    (result,) = run_rounds("tiny", contenders, 1, 0.02, 2)
    assert result.contender == "floor" and result.rate > 0
    assert "nobody is left out" in capsys.readouterr().err


@pytest.mark.slow
def test_each_window_has_the_requests_of_all_clients_and_the_servers_processor_time(in_process: Target) -> None:
    with Load(in_process, 2, [os.getpid()]) as load:
        for _ in range(2):
            window = load.measure(0.05)
            assert len(window.latencies_us) > 2 and window.latencies_us.min() > 0
            assert window.rate > 0 and window.cpu_us >= 0


@pytest.mark.slow
def test_a_peer_that_cannot_be_installed_says_why(tmp_path: Path) -> None:
    (tmp_path / "kserve").touch()
    with pytest.raises(InstallationError, match=r"kserve==.* cannot be installed"):
        interpreter(tmp_path / "kserve", ["kserve==0.21.0"], ["kserve"])
