"""Runs whose inputs grow, such as the cache of a decoder: one plan and one binding for all lengths, 0 among them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from nnhal.arrays import Array
from nnhal.clock import now_ns
from nnhal.errors import HalError
from nnhal.types import NO_DEADLINE
from nnhal.types.layout import Dimensions
from nnhal_client import Framework, Model, connect
from nnhal_client.binding import Binding
from nnhal_tools.replay import replay_recording
from nnhal_tools.up import DeviceEntry, Testbed, Topology
from tests.support.onnx_models import onnx_model
from tests.support.processes import WARM
from tests.support.recordings import recording
from tests.support.testbeds import framework_over

HEADS, WIDTH = 2, 8


def decoder(ending: str = "") -> onnx.ModelProto:
    """A step of attention: the token's key and value join the past, which it attends to. ``ending`` is an operator for
    the result.
    """
    nodes = [
        helper.make_node("MatMul", ["x", "weights"], ["new"]),
        helper.make_node("Concat", ["past", "new"], ["present"], axis=2),
        helper.make_node("Transpose", ["present"], ["keys"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["x", "keys"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["weighed"], axis=-1),
        helper.make_node("MatMul", ["weighed", "present"], ["seen" if ending else "y"]),
    ]
    if ending:
        nodes.append(helper.make_node(ending, ["seen"], ["y"]))
    weights = np.random.default_rng(1).standard_normal((WIDTH, WIDTH)).astype(np.float32)
    inputs: dict[str, list[int | str]] = {"x": [1, HEADS, 1, WIDTH], "past": [1, HEADS, "past", WIDTH]}
    return onnx_model(nodes, inputs, ["y", "present"], {"weights": weights})


@pytest.fixture(scope="module")
def framework() -> Iterator[Framework]:
    """A framework over the CPU's devices."""
    with framework_over(DeviceEntry(driver="cpu_acc"), DeviceEntry(driver="cpu_ref")) as session:
        yield session


@pytest.fixture(scope="module")
def model(framework: Framework, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    path = tmp_path_factory.mktemp("models") / "decoder.onnx"
    path.write_bytes(decoder().SerializeToString())
    with framework.load(path) as loaded:
        yield loaded


def token(number: int) -> Array:
    return np.random.default_rng(number).standard_normal((1, HEADS, 1, WIDTH)).astype(np.float32)


def past_of(length: int) -> Array:
    return np.random.default_rng(1000 + length).standard_normal((1, HEADS, length, WIDTH)).astype(np.float32)


@cache
def session() -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(decoder().SerializeToString(), providers=["CPUExecutionProvider"])


def expected(inputs: Mapping[str, Array]) -> tuple[Array, Array]:
    """Return what ONNX Runtime makes of the step: y and present."""
    y, present = session().run(None, dict(inputs))
    return np.asarray(y), np.asarray(present)


@pytest.mark.parametrize("direct", [True, False])
def test_a_cache_grows_from_nothing_in_one_binding(model: Model, direct: bool) -> None:
    with model.bind(dimensions={"past": (1, HEADS, (0, 24), WIDTH)}, direct=direct) as binding:
        past = np.zeros((1, HEADS, 0, WIDTH), np.float32)
        for number in range(25):
            binding.resize({"past": past.shape})
            binding.inputs["x"][...] = token(number)
            binding.inputs["past"][...] = past
            report = binding.run()
            y, present = expected({"x": token(number), "past": past})
            assert report.direct == direct
            np.testing.assert_array_equal(binding.outputs["present"], present)
            np.testing.assert_array_equal(binding.outputs["y"], y)
            past = present


def test_lengths_may_be_in_any_order(model: Model) -> None:
    with model.bind(dimensions={"past": (1, HEADS, (3, 40), WIDTH)}) as binding:
        assert binding.inputs["past"].shape == (1, HEADS, 3, WIDTH)
        for length in (3, 40, 0, 7, 7, 1, 39):
            binding.resize({"past": (1, HEADS, length, WIDTH)})
            binding.inputs["x"][...], binding.inputs["past"][...] = token(length), past_of(length)
            binding.run()
            y, present = expected({"x": token(length), "past": past_of(length)})
            np.testing.assert_array_equal(binding.outputs["present"], present)
            np.testing.assert_array_equal(binding.outputs["y"], y)


def test_more_than_the_maximum_is_refused_and_the_binding_still_runs(model: Model) -> None:
    with model.bind(dimensions={"past": (1, HEADS, (0, 4), WIDTH)}) as binding:
        with pytest.raises(ValueError, match=r"input 'past' is to be \[1, 2, 5, 8\], but it was bound as"):
            binding.resize({"past": (1, HEADS, 5, WIDTH)})
        with pytest.raises(ValueError, match=r"got dimensions of \['x'\], expected inputs that"):
            binding.resize({"x": (1, HEADS, 1, WIDTH)})
        with pytest.raises(ValueError, match=r"\(1, 2, 5, 8\)}, but their memory is for .*\(1, 2, 4, 8\)"):
            binding.fill({"x": token(1), "past": past_of(5)})
        with pytest.raises(ValueError, match=r"got inputs \['x'\], expected \['past', 'x'\]"):
            binding.fill({"x": token(1)})
        binding.run()
        assert binding.outputs["present"].shape == (1, HEADS, 1, WIDTH)


def test_without_a_maximum_memory_doubles(model: Model) -> None:
    rooms = set()
    with model.bind(dimensions={"past": (1, HEADS, (0, None), WIDTH)}) as binding:
        for length in range(20):
            binding.resize({"past": (1, HEADS, length, WIDTH)})
            binding.inputs["x"][...], binding.inputs["past"][...] = token(length), past_of(length)
            binding.run()
            _, present = expected({"x": token(length), "past": past_of(length)})
            np.testing.assert_array_equal(binding.outputs["present"], present)
            rooms.add(binding.dimensions["past"][2])
    assert rooms == {2, 6, 14, 30}


def test_an_empty_past_is_a_past_by_whatever_way(model: Model) -> None:
    with model.bind(dimensions={"past": (1, HEADS, 0, WIDTH)}) as binding:
        binding.inputs["x"][...] = token(1)
        binding.run()
        assert binding.outputs["present"].shape == (1, HEADS, 1, WIDTH)


def test_runs_of_a_model_grow_in_few_bindings(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    bound: list[Mapping[str, Dimensions]] = []
    bind = Binding._bind

    def counted(self: Binding, lengths: Mapping[str, Dimensions]) -> None:
        bound.append(lengths)
        bind(self, lengths)

    monkeypatch.setattr(Binding, "_bind", counted)
    past = np.zeros((1, HEADS, 0, WIDTH), np.float32)
    for number in range(30):
        outputs = model.run({"x": token(number), "past": past})
        y, present = expected({"x": token(number), "past": past})
        np.testing.assert_array_equal(outputs["present"], present)
        np.testing.assert_array_equal(outputs["y"], y)
        past = present
    assert [lengths["past"][2] for lengths in bound] == [0, 3, 7, 15]


@pytest.fixture(scope="module")
def stateful(framework: Framework, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    """The decoder with its past as a state that begins with nothing, and has at most 20 tokens."""
    path = tmp_path_factory.mktemp("models") / "decoder.onnx"
    path.write_bytes(decoder().SerializeToString())
    past = {"past": (1, HEADS, (0, 20), WIDTH)}
    with framework.load(path, states={"past": "present"}, dimensions=past, devices=["cpu_acc"]) as loaded:
        yield loaded


def step(binding: Binding, number: int, past: Array, deadline_ns: int = NO_DEADLINE) -> tuple[Array, bool]:
    """Run a token, check its result, and return what ONNX Runtime has as past then, and whether the run was direct."""
    binding.inputs["x"][...] = token(number)
    report = binding.run(deadline_ns)
    y, present = expected({"x": token(number), "past": past})
    np.testing.assert_array_equal(binding.outputs["y"], y)
    return present, report.direct


NOTHING = past_of(0)


def test_a_state_grows_from_nothing_on_its_device(stateful: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    with stateful.bind() as binding, stateful.bind() as other:
        monkeypatch.setattr(Binding, "_bind", None)  # nothing is bound any more
        for _ in range(2):
            past = NOTHING
            for number in range(20):
                past, direct = step(binding, number, past)
                assert direct
            assert past.shape == (1, HEADS, 20, WIDTH)
            step(other, 1, NOTHING)
            other.reset_state()
            binding.reset_state()


def test_runs_of_either_way_read_what_the_last_run_has_written(stateful: Model) -> None:
    with stateful.bind() as binding, stateful.bind(direct=False) as far:
        past = far_past = NOTHING
        for number in range(12):
            is_late = number % 7 in (2, 3, 5)  # a run with a deadline goes through the framework
            past, direct = step(binding, number, past, now_ns() + 10**12 if is_late else NO_DEADLINE)
            assert direct is not is_late
            far_past, direct = step(far, number, far_past)
            assert not direct
            if number == 6:
                binding.reset_state()
                past = NOTHING


def test_a_state_that_would_be_too_long_stays_as_it_was(stateful: Model) -> None:
    with stateful.bind() as binding:
        past = NOTHING
        for number in range(20):
            past, _ = step(binding, number, past)
        for _ in range(2):
            with pytest.raises(HalError, match=r"\[1, 2, 21, 8\].*of at most \[1, 2, 20, 8\]"):
                binding.run()
        binding.reset_state()
        step(binding, 3, NOTHING)


@pytest.mark.parametrize("device", ["cpu_acc", "cpu_ref"])
def test_a_state_without_a_maximum_has_memory_that_doubles(framework: Framework, tmp_path: Path, device: str) -> None:
    path = tmp_path / "decoder.onnx"
    path.write_bytes(decoder().SerializeToString())
    past: Array = np.zeros((1, HEADS, 2, WIDTH), np.float32)
    with (
        framework.load(
            path, states={"past": "present"}, dimensions={"past": (1, HEADS, (2, None), WIDTH)}, devices=[device]
        ) as model,
        model.bind() as binding,
    ):
        for number in range(10):
            binding.inputs["x"][...] = token(number)
            binding.run()
            y, past = expected({"x": token(number), "past": past})
            np.testing.assert_allclose(binding.outputs["y"], y, rtol=1e-5, atol=1e-6)


def test_a_state_grows_in_a_plan_of_several_devices(framework: Framework, tmp_path: Path) -> None:
    path = tmp_path / "decoder.onnx"
    path.write_bytes(decoder().SerializeToString())
    pins = {"op:SOFTMAX": "cpu_ref", **{f"op:{kind}": "cpu_acc" for kind in ("CONCATENATION", "BATCH_MATMUL")}}
    past = NOTHING
    with (
        framework.load(
            path, states={"past": "present"}, dimensions={"past": (1, HEADS, (0, 20), WIDTH)}, pins=pins
        ) as model,
        model.bind() as binding,
    ):
        assert "cpu_ref" in model.steps
        for number in range(6):
            binding.inputs["x"][...] = token(number)
            binding.run()
            y, past = expected({"x": token(number), "past": past})
            np.testing.assert_allclose(binding.outputs["y"], y, rtol=1e-5, atol=1e-6)


def test_a_state_grows_in_a_chain_whose_other_values_do_not(framework: Framework, tmp_path: Path) -> None:
    path = tmp_path / "decoder.onnx"
    path.write_bytes(decoder("Tanh").SerializeToString())
    pins = {"op:TANH": "cpu_ref", **dict.fromkeys(("op:CONCATENATION", "op:BATCH_MATMUL", "op:SOFTMAX"), "cpu_acc")}
    past = NOTHING
    with (
        framework.load(path, states={"past": "present"}, dimensions={"past": CACHE}, pins=pins) as model,
        model.bind() as binding,
    ):
        assert model.steps == ("cpu_acc", "cpu_ref")
        for number in range(20):
            is_late = number % 7 in (2, 3, 5)
            binding.inputs["x"][...] = token(number)
            report = binding.run(now_ns() + 10**12 if is_late else NO_DEADLINE)
            y, past = expected({"x": token(number), "past": past})
            np.testing.assert_allclose(binding.outputs["y"], np.tanh(y), rtol=1e-5, atol=1e-6)
            assert report.direct is not is_late
        with pytest.raises(HalError, match=r"\[1, 2, 21, 8\].*of at most \[1, 2, 20, 8\]"):
            binding.run()
        binding.reset_state()
        binding.run()
        y, _ = expected({"x": token(19), "past": NOTHING})
        np.testing.assert_allclose(binding.outputs["y"], np.tanh(y), rtol=1e-5, atol=1e-6)


CACHE = (1, HEADS, (0, 20), WIDTH)


def turns_of(framework: Framework, model: Model) -> list[Binding]:
    """Bindings that read one of two memories and write the other, in turn, from an empty past on."""
    roles = [model.input_role("past"), model.output_role("present")]
    even, odd = (framework.allocate(roles, CACHE) for _ in range(2))
    assert (even.device, odd.device) == ("cpu_acc", "cpu_acc")
    return [model.bind(memories={"past": past, "present": present}) for past, present in ((even, odd), (odd, even))]


def test_allocated_memory_grows_from_nothing(model: Model, framework: Framework) -> None:
    turns, past = turns_of(framework, model), NOTHING
    for number in range(20):
        is_late = number % 7 in (2, 3, 5)
        binding = turns[number % 2]
        assert set(binding.inputs) == {"x"}
        binding.inputs["x"][...] = token(number)
        report = binding.run(now_ns() + 10**12 if is_late else NO_DEADLINE)
        y, past = expected({"x": token(number), "past": past})
        np.testing.assert_array_equal(binding.outputs["y"], y)
        assert report.direct is not is_late
        assert report.dimensions["present"] == past.shape
    with pytest.raises(HalError, match=r"\[1, 2, 21, 8\].*of at most \[1, 2, 20, 8\]"):
        turns[0].run()


def test_memory_that_grows_is_copied_at_each_length(model: Model, framework: Framework) -> None:
    memory, other = (framework.allocate([model.input_role("past")], CACHE) for _ in range(2))
    with model.bind(memories={"past": memory}, dimensions={"past": CACHE, "present": (1, HEADS, 21, WIDTH)}) as binding:
        for length in (0, 3, 20, 0, 1):
            memory.copy_from(past_of(length))
            binding.inputs["x"][...] = token(length)
            binding.run()
            y, present = expected({"x": token(length), "past": past_of(length)})
            np.testing.assert_array_equal(binding.outputs["y"], y)
            np.testing.assert_array_equal(binding.outputs["present"], present)
            other.copy_from(memory)
            if length:
                copied = np.empty_like(past_of(length))
                other.copy_to(copied)
                np.testing.assert_array_equal(copied, past_of(length))
        with pytest.raises(HalError, match=r"destination of \d+ bytes, expected \d+"):
            other.copy_to(np.empty_like(past_of(2)))


def test_memory_that_cannot_grow_is_refused(model: Model, framework: Framework) -> None:
    past = [model.input_role("past")]
    for roles, dimensions, words in (
        (past, (1, (2, 4), (0, 4), WIDTH), r"at most \[1, 4, 4, 8\], its roles have \[1, 2, \?, 8\]"),
        ([model.input_role("x")], (1, HEADS, (0, 4), WIDTH), r"at most \[1, 2, 4, 8\], its roles have \[1, 2, 1, 8\]"),
        ([*past, model.output_role("y")], CACHE, r"its roles have"),
    ):
        with pytest.raises(HalError, match=words):
            framework.allocate(roles, dimensions)
    with pytest.raises(ValueError, match=r"got the range \(5, 4\) of a length"):
        framework.allocate(past, (1, HEADS, (5, 4), WIDTH))
    unfilled = framework.allocate(past, (1, HEADS, (2, 4), WIDTH))
    with pytest.raises(HalError, match="uninitialised"):
        unfilled.copy_to(np.empty_like(past_of(2)))
    fixed = framework.allocate([model.input_role("x")])
    with pytest.raises(HalError, match=r"an empty value of \[1, 2, 0, 8\] for"):
        fixed.copy_from(past_of(0))


def test_a_range_is_for_states_and_for_open_axes(framework: Framework, tmp_path: Path) -> None:
    path = tmp_path / "decoder.onnx"
    path.write_bytes(decoder().SerializeToString())
    with pytest.raises(ValueError, match=r"the range .* for input 'past', expected one of states only"):
        framework.load(path, dimensions={"past": (1, HEADS, (0, 4), WIDTH)})
    states = {"past": "present"}
    with pytest.raises(HalError, match=r"grows along axes \[1\], the model has \[1, 2, \?, 8\]"):
        framework.load(path, states=states, dimensions={"past": (1, (2, 4), (0, 4), WIDTH)})


def test_a_state_begins_empty_on_the_reference_too(framework: Framework, tmp_path: Path) -> None:
    path = tmp_path / "decoder.onnx"
    path.write_bytes(decoder().SerializeToString())
    past = {"past": (1, HEADS, (0, 4), WIDTH)}
    with (
        framework.load(path, states={"past": "present"}, dimensions=past, devices=["cpu_ref"]) as model,
        model.bind() as binding,
    ):
        binding.inputs["x"][...] = token(0)
        binding.run()
        y, _ = expected({"x": token(0), "past": past_of(0)})
        np.testing.assert_allclose(binding.outputs["y"], y, rtol=1e-5, atol=1e-6)


def test_an_input_may_be_empty_on_the_reference_too(framework: Framework, tmp_path: Path) -> None:
    path = tmp_path / "decoder.onnx"
    path.write_bytes(decoder().SerializeToString())
    with (
        framework.load(path, devices=["cpu_ref"]) as model,
        model.bind(dimensions={"past": (1, HEADS, (0, 4), WIDTH)}) as binding,
    ):
        for length in (0, 2):
            binding.resize({"past": (1, HEADS, length, WIDTH)})
            binding.inputs["x"][...], binding.inputs["past"][...] = token(2), past_of(length)
            binding.run()
            _, present = expected({"x": token(2), "past": past_of(length)})
            np.testing.assert_allclose(binding.outputs["present"], present, rtol=1e-5, atol=1e-6)


def test_a_state_that_grows_is_recorded_and_replayed(tmp_path: Path) -> None:
    path = tmp_path / "decoder.onnx"
    path.write_bytes(decoder().SerializeToString())
    past = {"past": (1, HEADS, (0, 8), WIDTH)}
    with Testbed(Topology(device=(DeviceEntry(driver="cpu_acc"),)), tmp_path, allow_recording=True, zygote=WARM) as bed:
        device = bed.endpoint("cpu_acc")
        with (
            recording(device, tmp_path / "a.nnrec") as recorded,
            connect(bed.framework) as framework,
            framework.load(path, states={"past": "present"}, dimensions=past) as model,
            model.bind() as binding,
        ):
            for number in range(4):
                binding.inputs["x"][...] = token(number)
                assert binding.run().direct
        report = replay_recording(recorded.path, str(device.directory))
    assert ([each.reason for each in report.failures], report.left_out) == ([], {})
    assert len(report.outcomes) >= 4


def test_runs_of_many_lengths_are_recorded_and_replayed_with_them(tmp_path: Path) -> None:
    path = tmp_path / "decoder.onnx"
    path.write_bytes(decoder().SerializeToString())
    topology = Topology(device=(DeviceEntry(driver="cpu_acc"), DeviceEntry(driver="cpu_ref")))
    with Testbed(topology, tmp_path, allow_recording=True, zygote=WARM) as testbed:
        device = testbed.endpoint("cpu_acc")
        with (
            recording(device, tmp_path / "a.nnrec") as recorded,
            connect(testbed.framework) as framework,
            framework.load(path) as model,
        ):
            for direct in (True, False):
                with model.bind(dimensions={"past": (1, HEADS, (0, 4), WIDTH)}, direct=direct) as binding:
                    for length in (0, 3, 1):
                        binding.resize({"past": (1, HEADS, length, WIDTH)})
                        binding.inputs["x"][...], binding.inputs["past"][...] = token(length), past_of(length)
                        binding.run()
        runs = [call.event.execution for call in recorded.calls() if call.event.HasField("execution")]
        for length, run in zip((0, 3, 1) * 2, runs, strict=True):
            assert [1, HEADS, length, WIDTH] in [list(one.dimensions) for one in run.lengths]
        assert {len(run.outputs) for run in runs} == {2}
        report = replay_recording(recorded.path, str(device.directory))
    assert ([each.reason for each in report.failures], report.left_out) == ([], {})
    assert len([outcome for outcome in report.outcomes if "PrepareModel" not in outcome.name]) == 6
