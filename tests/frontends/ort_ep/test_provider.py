"""Models that ONNX Runtime gives to nnhal: what they answer, and which nodes nnhal takes."""

from __future__ import annotations

import ctypes
import os
import re
import threading
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

import nnhal_ort
from nnhal.arrays import Array
from nnhal.remote.admin import DeviceAdmin
from nnhal_ort import get_ep_name
from nnhal_tools.up import Testbed
from tests.frontends.ort_ep.sessions import (
    DIGITS,
    DIGITS_INT8,
    GIVES_OUTER_VALUES,
    Value,
    answers,
    assert_same,
    assigned,
    image,
    model_of,
    needs_memory_info,
    provider_memory,
    reference,
    session,
)
from tests.support.external_data import LOCATION, SIDE, written
from tests.support.onnx_operators import MAKERS
from tests.support.random_models import Case, examples, models

pytestmark = [pytest.mark.sdk, pytest.mark.slow, pytest.mark.timeout(600)]  # the first one builds the provider

Fail = onnxruntime.capi.onnxruntime_pybind11_state.Fail
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


@pytest.mark.parametrize("model", [DIGITS, DIGITS_INT8])
def test_a_whole_model_runs_on_devices(provider: Testbed, model: Path) -> None:
    made = session(model, devices="cpu_acc")
    assert len(assigned(made)) == 1
    assert_same(made, model, *({"image": image(seed)} for seed in range(3)))


def test_threads_of_a_session_soon_sleep_unless_its_program_says_otherwise(provider: Testbed) -> None:
    spins, microseconds = "session.intra_op.allow_spinning", "session.intra_op.spin_duration_us"
    assert session(DIGITS).get_session_options().get_session_config_entry(microseconds) == "1000"
    for key, value in ((spins, "1"), (microseconds, "20")):
        options = onnxruntime.SessionOptions()
        options.add_session_config_entry(key, value)
        onnxruntime.InferenceSession(str(DIGITS), options, providers=[get_ep_name()])
        assert options.get_session_config_entry(key) == value
        for other in {spins, microseconds} - {key}:
            with pytest.raises(RuntimeError, match="does not have"):
                options.get_session_config_entry(other)


def test_the_first_device_stands_for_the_whole_framework(provider: Testbed) -> None:
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == get_ep_name()]
    assert [device.ep_metadata["nnhal_device"] for device in devices] == ["", "cpu_acc", "ethos_n"]


def test_a_model_has_several_inputs(provider: Testbed) -> None:
    names = ["a", "b", "c", "d"]
    nodes = [helper.make_node("Concat", names, ["joined"], axis=1), helper.make_node("Relu", ["joined"], ["y"])]
    model = model_of(nodes, [(name, FLOAT, [2, 3]) for name in names], [("y", FLOAT, [2, 12])])
    given = {name: np.random.default_rng(seed).standard_normal((2, 3), np.float32) for seed, name in enumerate(names)}
    assert_same(session(model), model, given)


def test_an_input_with_a_default_may_be_given_or_left_out(provider: Testbed) -> None:
    add, x, w = helper.make_node("Add", ["x", "w"], ["y"]), np.ones(2, np.float32), np.array([3, -4], np.float32)
    model = model_of([add], [("x", FLOAT, [2]), ("w", FLOAT, [2])], [("y", FLOAT, [2])], {"w": 2 * w})
    assert_same(session(model), model, {"x": x}, {"x": x, "w": w}, {"x": x})


def test_dimensions_change_from_run_to_run(provider: Testbed) -> None:
    model = model_of([helper.make_node("Relu", ["x"], ["y"])], [("x", FLOAT, ["n", 3])], [("y", FLOAT, ["n", 3])])
    given = [{"x": np.full((count, 3), count - 5, np.float32)} for count in (1, 4, 7, 4, 2000, 1)]
    assert_same(session(model), model, *given)


def test_a_run_has_the_dimensions_that_the_model_is_loaded_for(provider: Testbed) -> None:
    """ONNX Runtime knows nothing of them."""
    model = model_of([helper.make_node("Relu", ["x"], ["y"])], [("x", FLOAT, ["n", 3])], [("y", FLOAT, ["n", 3])])
    made = session(model, dimensions="x=2,3")
    assert_same(made, model, {"x": np.ones((2, 3), np.float32)})
    with pytest.raises(Fail, match=r"input 'x' has dimensions \[4, 3\], and the model is loaded for \[2, 3\]"):
        answers(made, {"x": np.ones((4, 3), np.float32)})


def test_an_output_is_as_long_as_its_values_say(provider: Testbed) -> None:
    model = model_of([helper.make_node("NonZero", ["x"], ["y"])], [("x", FLOAT, [1000])], [("y", INT64, [1, "k"])])
    given = [{"x": (np.arange(1000) < count).astype(np.float32)} for count in (1, 4, 999, 3)]
    assert_same(session(model), model, *given)


def test_elements_that_the_hal_lacks_pass(provider: Testbed) -> None:
    model = model_of([helper.make_node("Add", ["x", "x"], ["y"])], [("x", INT64, [3])], [("y", INT64, [3])])
    assert_same(session(model), model, {"x": np.array([1, -2, 3])})


def test_elements_that_numpy_lacks_pass(provider: Testbed) -> None:
    """Floats of 8 bits, and bfloat16."""
    for number, kind in ((TensorProto.FLOAT8E4M3FN, np.uint8), (TensorProto.FLOAT8E5M2, np.uint8), (16, np.uint16)):
        model = model_of(
            [helper.make_node("Identity", ["x"], ["y"])], [("x", number, [5])], [("y", number, [5])], opset=21
        )
        given = np.array([1, 60, 120, 130, 200], kind)
        value = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(given, number)
        (got,) = session(model).run_with_ort_values(None, {"x": value})
        assert (got.element_type(), got.tensor_size_in_bytes()) == (number, given.nbytes)
        assert ctypes.string_at(got.data_ptr(), given.nbytes) == given.tobytes()


def test_control_flow_is_taken_as_a_whole(provider: Testbed) -> None:
    def branch(operator: str) -> object:
        node = helper.make_node(operator, ["x", "w"], ["z"])
        return helper.make_graph([node], operator, [], [helper.make_tensor_value_info("z", FLOAT, [3])])

    node = helper.make_node("If", ["c"], ["y"], then_branch=branch("Add"), else_branch=branch("Mul"))
    weights = np.arange(1, 4, dtype=np.float32)
    model = model_of([node], [("c", BOOL, []), ("x", FLOAT, [3])], [("y", FLOAT, [3])], constants={"w": weights})
    made = session(model, strict=GIVES_OUTER_VALUES)
    assert assigned(made) == ([["If"]] if GIVES_OUTER_VALUES else [])
    assert_same(made, model, *({"c": np.array(value), "x": np.ones(3, np.float32)} for value in (True, False)))


def test_a_caller_may_override_a_default(provider: Testbed) -> None:
    model = model_of(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        [("x", FLOAT, [3]), ("w", FLOAT, [3])],
        [("y", FLOAT, [3])],
        constants={"w": np.arange(3, dtype=np.float32)},
    )
    ones = np.ones(3, np.float32)
    assert_same(session(model), model, {"x": ones}, {"x": ones, "w": 5 * ones})


def test_threads_run_one_session(provider: Testbed) -> None:
    made, plain = session(DIGITS, devices="cpu_acc"), reference(DIGITS)
    expected = [answers(plain, {"image": image(seed)})[0] for seed in range(8)]
    wrong: list[int] = []

    def run(first: int) -> None:
        for seed in [*range(first, 8), *range(first)] * 10:
            (got,) = answers(made, {"image": image(seed)})
            if not np.array_equal(got, expected[seed]):
                wrong.append(seed)

    threads = [threading.Thread(target=run, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def arenas() -> list[str]:
    """The files in which the provider has tensors, as devices tell them apart."""
    found = re.findall(r"(\w+):(\w+) (\d+) +/memfd:nnhal-ort-arena", Path("/proc/self/maps").read_text())
    return [f"{os.makedev(int(major, 16), int(minor, 16))}:{inode}" for major, minor, inode in found]


@needs_memory_info
def test_tensors_in_the_providers_memory_are_used_in_place(provider: Testbed) -> None:
    x, y = (
        onnxruntime.OrtValue.ortvalue_from_shape_and_type(shape, np.float32, memory_info=provider_memory())
        for shape in ((1, 1, 8, 8), (1, 10))
    )
    made, plain = session(DIGITS, devices="cpu_acc"), reference(DIGITS)
    binding = made.io_binding()
    binding.bind_ortvalue_input("image", x)
    binding.bind_ortvalue_output("probabilities", y)
    with DeviceAdmin(provider.endpoint("cpu_acc"), provider.admin_key) as device:
        before = device.device().staged_bytes
        for seed in range(3):
            x.numpy()[...] = image(seed)
            made.run_with_iobinding(binding)
            np.testing.assert_array_equal(y.numpy(), answers(plain, {"image": image(seed)})[0])
        pools = [pool for pool in device.process().pools if pool.memory in arenas()]
        assert {(pool.bytes, pool.mapped, pool.staged) for pool in pools} == {(4 << 30, True, False)}
        assert device.device().staged_bytes == before
    mapped = Path("/proc/self/maps").read_text()
    assert "nnhal-ort-arena" in mapped
    assert "nnhal-ort-run" not in mapped  # into which it copies what lies elsewhere


def test_a_device_takes_what_it_can(provider: Testbed) -> None:
    made = session(DIGITS_INT8, strict=False, devices="ethos_n")
    (group,) = assigned(made)
    layers = ["Conv", "Conv", "MaxPool", "Conv", "Flatten", "Gemm"]
    inner = [word for layer in layers for word in ("DequantizeLinear", layer, "QuantizeLinear")]
    # Eight constants go with their readers; without the quantizer of the input, and all from the softmax on.
    assert group == [*["DequantizeLinear"] * 8, *inner]
    assert_same(made, DIGITS_INT8, *({"image": image(seed)} for seed in range(3)))


def test_operators_of_others_run(provider: Testbed) -> None:
    steps, batch, features, units = 5, 2, 3, 4
    random = np.random.default_rng(0)
    constants: dict[str, Array] = {
        "w": random.integers(-60, 60, (1, features, 4 * units)).astype(np.int8),
        "r": random.integers(-60, 60, (1, units, 4 * units)).astype(np.int8),
        "b": random.standard_normal((1, 8 * units), np.float32),
        "scale": np.array([0.01], np.float32),
        "zero": np.zeros(1, np.int8),
    }
    inputs = ["x", "w", "r", "b", "", "", "", "", "scale", "zero", "scale", "zero"]
    node = helper.make_node("DynamicQuantizeLSTM", inputs, ["y", "h", "c"], domain="com.microsoft", hidden_size=units)
    last = (1, batch, units)
    outputs: list[Value] = [("y", FLOAT, (steps, *last)), ("h", FLOAT, last), ("c", FLOAT, last)]
    model = model_of([node], [("x", FLOAT, (steps, batch, features))], outputs, constants=constants)
    assert_same(session(model), model, {"x": random.standard_normal((steps, batch, features), np.float32)})


def test_large_constants_pass_by_reference(provider: Testbed) -> None:
    weights = np.random.default_rng(0).standard_normal((1 << 14, 520), np.float32)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    model = model_of([node], [("x", FLOAT, [1, 1 << 14])], [("y", FLOAT, [1, 520])], constants={"w": weights})
    assert_same(session(model), model, {"x": np.linspace(-1, 1, 1 << 14, dtype=np.float32).reshape(1, -1)})


def test_weights_in_other_files_are_read_by_the_device(provider: Testbed, tmp_path: Path) -> None:
    path, x = written(tmp_path), np.linspace(-1, 1, SIDE, dtype=np.float32).reshape(1, -1)
    (expected,) = answers(reference(path), {"x": x})
    made = session(path, devices="cpu_acc")
    assert str(tmp_path / LOCATION) in {os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()}
    os.truncate(tmp_path / LOCATION, 0)
    np.testing.assert_array_equal(answers(made, {"x": x})[0], expected)


def test_what_is_not_numbers_is_left(provider: Testbed) -> None:
    nodes = [
        helper.make_node("StringConcat", ["s", "s"], ["t"]),
        helper.make_node("StringConcat", ["c", "c"], ["u"]),  # ONNX Runtime computes it before it asks
        helper.make_node("SequenceConstruct", ["x", "x"], ["q"]),
        helper.make_node("ConcatFromSequence", ["q"], ["y"], axis=0),
        helper.make_node("Relu", ["y"], ["z"]),
    ]
    string = TensorProto.STRING
    results = [("t", string, [1]), ("u", string, [1]), ("z", FLOAT, [4])]
    constants = {"c": np.array(["b"], object)}
    model = model_of(nodes, [("s", string, [1]), ("x", FLOAT, [2])], results, constants, opset=20)
    made = session(model, strict=False)
    taken = [operator for group in assigned(made) for operator in group]
    assert "StringConcat" not in taken
    assert "Relu" in taken
    assert_same(made, model, {"s": np.array(["a"], object), "x": np.array([-1, 2], np.float32)})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"devices": "npu9"}, "no device 'npu9'; there are cpu_acc, ethos_n"),
        ({"directory": "/nowhere"}, "/nowhere/link.sock"),
        ({"fallback": "maybe"}, "option fallback is 'maybe', expected one of"),
        ({"devises": "cpu_acc"}, "unknown option 'devises'"),
        ({"pins": "layer:conv1=cpu_acc"}, "pin 'layer:conv1': expected name:GLOB"),
        ({"dimensions": "picture=1,1,8,8"}, r"a shape is given for 'picture', the model's inputs are \['image'\]"),
        ({"dimensions": "image=2,1,8,8"}, r"shape \[2, 1, 8, 8\] is given for input 'image' of shape \[1, 1, 8, 8\]"),
    ],
)
def test_what_cannot_be_had_is_an_error_and_not_the_cpu(provider: Testbed, options: dict[str, str], words: str) -> None:
    with pytest.raises(Fail, match=words):
        session(DIGITS, strict=False, **options)


def test_a_library_goes_with_its_last_session(provider: Testbed) -> None:
    made = session(DIGITS, devices="cpu_acc")
    onnxruntime.unregister_execution_provider_library("nnhal")
    assert_same(made, DIGITS, {"image": image()})
    del made
    nnhal_ort.register()
    assert_same(session(DIGITS, devices="cpu_acc"), DIGITS, {"image": image()})


def test_a_compiled_model_is_loaded_again(provider: Testbed, tmp_path: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.add_provider(get_ep_name(), {"devices": "cpu_acc"})
    compiler = onnxruntime.ModelCompiler(options, str(DIGITS), embed_compiled_data_into_model=True)
    compiler.compile_to_file(str(tmp_path / "compiled.onnx"))
    made = session(tmp_path / "compiled.onnx", devices="cpu_acc")
    plain = reference(DIGITS)
    np.testing.assert_array_equal(answers(made, {"image": image()}), answers(plain, {"image": image()}))


@examples(10)
@given(case=st.booleans().flatmap(lambda empties: models(MAKERS, 4, empties)))
def test_random_models_are_answered_as_by_onnxruntime(provider: Testbed, case: Case | None) -> None:
    if case is not None:
        made = session(case.content, strict=False)
        assert case.differences(dict(zip(case.expected, answers(made, case.inputs), strict=True))) == []
