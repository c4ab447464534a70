"""What the comparison with peers makes of its measurements, and the models that it uses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from benchmarks.models import cnn, rectifier
from benchmarks.peers.contenders import (
    ECHO,
    FLOOR,
    HTTP_BYTES,
    KSERVE,
    LARGE,
    MLSERVER,
    NATIVE,
    PING_PONG,
    TINY,
    TRITON_GRPC,
    TRITON_HTTP,
    V2_BYTES,
    V2_SHARED,
    Contender,
    pass_through,
    peer_contenders,
)
from benchmarks.peers.environments import PeerError, installed
from benchmarks.peers.ratios import Quantity, Ratio, ratios
from benchmarks.peers.rounds import Result, run_rounds
from benchmarks.peers.starting import echo_server
from benchmarks.serve import Target, Transport


def _result(
    contender: str, rate: float, model: str = TINY, concurrency: int = 1, cpu_us: float | None = None
) -> Result:
    return Result(model, concurrency, contender, rate, 1e6 / rate, 1e6 / rate, cpu_us, 0.0)


def _aims(results: list[Result]) -> list[Ratio]:
    return [ratio for ratio in ratios(results, ()) if ratio.aim is not None]


def test_native_is_compared_with_the_fastest_of_tritons_transports() -> None:
    results = [_result(NATIVE, 900), _result(TRITON_GRPC, 100), _result(TRITON_HTTP, 300)]
    (ratio,) = ratios(results, ())
    assert (ratio.ratio, ratio.aim, ratio.is_met) == (3.0, 4.0, False)
    assert TRITON_HTTP in ratio.what


def test_v2_is_compared_with_each_peer_that_there_is() -> None:
    found = ratios([_result(V2_BYTES, 200), _result(MLSERVER, 100), _result(KSERVE, 400)], ())
    assert [(ratio.ratio, ratio.is_met) for ratio in found] == [(2.0, True), (0.5, False)]
    assert ratios([_result(V2_BYTES, 200)], ()) == []


@pytest.mark.parametrize(("concurrency", "met"), [(1, {HTTP_BYTES: False}), (4, {HTTP_BYTES: False, V2_BYTES: True})])
def test_each_transport_is_compared_with_tritons_own(concurrency: int, met: dict[str, bool]) -> None:
    rates = {HTTP_BYTES: 110, TRITON_HTTP: 100, V2_BYTES: 100, TRITON_GRPC: 100}
    found = _aims([_result(name, rate, concurrency=concurrency) for name, rate in rates.items()])
    assert {ratio.what.partition(" over")[0]: ratio.is_met for ratio in found} == met


def test_less_processor_time_is_better() -> None:
    (ratio,) = _aims([_result(V2_BYTES, 1, TINY, 4, 700.0), _result(ECHO, 1, TINY, 4, 350.0)])
    assert (ratio.quantity, ratio.ratio, ratio.aim, ratio.is_met) == (Quantity.CPU, 2.0, 1.8, False)
    (ratio,) = _aims([_result(V2_BYTES, 1, TINY, 4, 500.0), _result(ECHO, 1, TINY, 4, 500.0)])
    assert ratio.is_met


def test_a_native_run_is_compared_with_a_ping_pong_and_a_run() -> None:
    (ratio,) = _aims([_result(NATIVE, 100), _result(PING_PONG, 200)])
    assert (ratio.quantity, ratio.ratio, ratio.is_met) == (Quantity.P50, 2.0, False)
    rate, cpu = _aims([_result(NATIVE, 30_000, TINY, 4, 90.0)])
    assert (rate.ratio, rate.is_met) == (1.5, True)
    assert (cpu.ratio, cpu.is_met) == (2.0, False)


def test_a_large_request_in_place_is_compared_with_the_run_and_a_small_request() -> None:
    small = _result(V2_SHARED, 1000)
    (ratio,) = _aims([small, _result(V2_SHARED, 100, LARGE), _result(FLOOR, 250, LARGE)])
    assert (ratio.quantity, ratio.ratio, ratio.aim) == (Quantity.P50, 2.0, 1.4)


@pytest.mark.parametrize(("size", "aim"), [(64 << 10, None), (256 << 10, 1.0)])
def test_shared_memory_has_to_be_ahead_from_256_kib_on(size: int, aim: float | None) -> None:
    model = pass_through(size)
    (ratio,) = ratios([_result(V2_BYTES, 200, model), _result(V2_SHARED, 100, model)], (size,))
    assert (ratio.ratio, ratio.aim) == (0.5, aim)


@pytest.mark.parametrize(
    ("concurrency", "rate", "quantity", "met"),
    [
        (1, 92, Quantity.P50, True),
        (1, 90, Quantity.P50, False),
        (4, 88, Quantity.RATE, True),
        (4, 86, Quantity.RATE, False),
    ],
)
def test_the_large_model_has_to_be_near_the_floor(concurrency: int, rate: float, quantity: Quantity, met: bool) -> None:
    (ratio,) = _aims([_result(NATIVE, rate, LARGE, concurrency), _result(FLOOR, 100, LARGE, concurrency)])
    assert (ratio.quantity, ratio.is_met) == (quantity, met)


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
        "floor": Contender(Target(Transport.IN_PROCESS, "", str(file))),
        "nobody": Contender(Target(Transport.GRPC, "127.0.0.1:1", TINY)),
    }
    (result,) = run_rounds(TINY, contenders, 1, 0.02, 2, said.append)
    assert result.contender == "floor" and result.rate > 0 and result.cpu_us is None
    assert any("nobody is left out" in line for line in said)


@pytest.mark.slow
def test_the_echo_answers_like_a_server_and_its_processor_time_is_known(tmp_path: Path) -> None:
    with echo_server(TINY, tmp_path) as addresses:
        contenders = peer_contenders("echo", addresses, TINY)
        (result,) = run_rounds(TINY, contenders, 1, 0.1, 1, print)
    assert result.contender == ECHO and result.rate > 0
    assert result.cpu_us is not None and result.cpu_us > 0


@pytest.mark.slow
def test_a_peer_that_cannot_be_installed_says_why(tmp_path: Path) -> None:
    (tmp_path / "kserve").touch()
    with pytest.raises(PeerError, match=r"kserve==.* cannot be installed"):
        installed("kserve", tmp_path)
