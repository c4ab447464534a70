"""Interpreters of LiteRT hand parts of their graphs to the devices of a framework, through libnnhal_tflite.so."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import flatbuffers.flexbuffers
import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType, load_delegate
from hypothesis import given
from hypothesis import strategies as st

import nnhal_client
from nnhal.arrays import Array
from nnhal.endpoint import Endpoint
from nnhal.remote.faults import FaultControl
from nnhal_tools.up import Testbed
from tests.native.conftest import started
from tests.support.drawn_values import random
from tests.support.random_models import Case, examples, models
from tests.support.tflite_drawing import MAKERS, TfliteDrawing
from tests.support.tflite_files import Spec, TfliteFile, booleans, floats
from tests.support.tflite_variables import running_sum
from tests.support.waiting import settled, wait_until

pytestmark = [pytest.mark.sdk, pytest.mark.slow, pytest.mark.timeout(600)]  # the first one builds the library

MODELS = os.environ.get("NNHAL_MODELS")
ADD = ("AddOptions", dict[str, object]())
INTERPRETERS = 60

Made = Callable[..., Interpreter]
"""Makes an interpreter with the delegate, of a file or its content; its options are those of the delegate."""


@pytest.fixture(scope="session")
def library(libraries: Path) -> str:
    return str(libraries / "libnnhal_tflite.so")


@pytest.fixture
def made(library: str, testbed: Testbed) -> Made:
    def make(content: Path | bytes, **options: str) -> Interpreter:
        given = {"framework": str(testbed.framework), **options}
        return interpreter(content, experimental_delegates=[load_delegate(library, given)])

    return make


def interpreter(model: Path | bytes, **options: Any) -> Interpreter:
    """Make an interpreter that gives nothing to a delegate of its own."""
    options["experimental_op_resolver_type"] = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    given = {"model_content": model} if isinstance(model, bytes) else {"model_path": str(model)}
    return Interpreter(**given, num_threads=1, **options)


def answers(made: Interpreter, *inputs: Any) -> list[Array]:
    """Run it on the inputs, in their own dimensions."""
    details = made.get_input_details()
    for detail, value in zip(details, inputs, strict=True):
        made.resize_tensor_input(detail["index"], np.shape(value))
    made.allocate_tensors()
    for detail, value in zip(details, inputs, strict=True):
        made.set_tensor(detail["index"], np.asarray(value, detail["dtype"]))
    made.invoke()
    return [made.get_tensor(detail["index"]) for detail in made.get_output_details()]


def parts(made: Interpreter) -> list[list[int]]:
    """The tensors that each part writes that nnhal runs."""
    return [node["outputs"].tolist() for node in made._get_ops_details() if node["op_name"] == "DELEGATE"]


def assert_same(got: Sequence[Array], expected: Sequence[Array]) -> None:
    for one, other in zip(got, expected, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_array_equal(one, other)


def unary(file: TfliteFile, code: str, tensor: int, name: str, spec: Spec | None = None) -> int:
    return file.operator(code, [tensor], {name: spec or floats(2, 3)})[0]


def negated_sum() -> bytes:
    """A model whose output is -(a + 1)."""
    file = TfliteFile()
    a, one = file.input("a", floats(2, 3)), file.constant(np.ones(1, np.float32))
    (more,) = file.operator("ADD", [a, one], {"more": floats(2, 3)}, ADD)
    return file.build(unary(file, "NEG", more, "y"))


@pytest.mark.skipif(MODELS is None, reason="NNHAL_MODELS names no folder of networks")
@pytest.mark.parametrize("name", ["mobilenet_v1_0.25_96", "ds_cnn_kws"])
@pytest.mark.parametrize("in_memory", [False, True])
def test_a_network_runs_as_a_whole(made: Made, testbed: Testbed, name: str, in_memory: bool) -> None:
    path = Path(MODELS or "", f"{name}.tflite")
    one = made(path.read_bytes() if in_memory else path)
    (detail,) = one.get_input_details()
    with nnhal_client.connect(testbed.framework) as framework, framework.load(path) as model:
        for seed in range(3):
            given = np.random.default_rng(seed).integers(-128, 128, detail["shape"]).astype(detail["dtype"])
            assert_same(answers(one, given), [*model.run({model.inputs[0].name: given}).values()])
    assert len(parts(one)) == 1


def test_what_nnhal_is_not_to_take_runs_where_it_did(made: Made) -> None:
    given = random(2, 3)
    one = made(negated_sum(), ops="NEG")
    assert_same(answers(one, given), answers(interpreter(negated_sum()), given))
    (written,) = parts(one)
    assert written == [detail["index"] for detail in one.get_output_details()]


def test_a_custom_operator_is_left_and_the_others_run_around_it(made: Made) -> None:
    file = TfliteFile()
    x = file.input("x", floats(16, 1))
    loud = unary(file, "ABS", x, "loud", floats(16, 1))
    options = flatbuffers.flexbuffers.Dumps({"window_size": 8, "stride": 8, "magnitude_squared": True})
    (spectrogram,) = file.operator("AudioSpectrogram", [loud], {"s": floats(1, 2, 5)}, custom=options)
    factor = file.constant(np.full(1, -2, np.float32))
    content = file.build(*file.operator("MUL", [spectrogram, factor], {"y": floats(1, 2, 5)}, ("MulOptions", {})))
    one, given = made(content, devices="cpu_acc"), random(16, 1)
    assert_same(answers(one, given), answers(interpreter(content), given))
    assert len(parts(one)) == 2


def test_a_custom_operator_that_xnnpack_has_is_taken_and_its_dimensions_change(made: Made) -> None:
    file = TfliteFile()
    x = file.input("x", floats(1, 4, 5, 2))
    weights, bias = (file.constant(random(*shape)) for shape in ((3, 2, 2, 2), (3,)))
    options = struct.pack("<3i", 1, 2, 2)
    (grown,) = file.operator(
        "Convolution2DTransposeBias", [x, weights, bias], {"g": floats(1, 8, 9, 3)}, custom=options
    )
    content = file.build(unary(file, "ABS", grown, "y", floats(1, 8, 9, 3)))
    one, plain = made(content), Interpreter(model_content=content)
    for shape in ((1, 4, 5, 2), (2, 6, 3, 2), (1, 4, 5, 2)):
        given = random(*shape)
        for found, expected in zip(answers(one, given), answers(plain, given), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert len(parts(one)) == 1


def test_dimensions_change_from_call_to_call(made: Made) -> None:
    one, plain = made(negated_sum()), interpreter(negated_sum())
    for shape in ((2, 3), (5, 4), (1, 1), (5, 4), (2, 3)):
        given = random(*shape)
        assert_same(answers(one, given), answers(plain, given))
    assert len(parts(one)) == 1


def test_an_output_is_as_long_as_its_values_say(made: Made) -> None:
    file = TfliteFile()
    x = file.input("x", booleans(3000))
    open_ended = Spec((1, 1), np.int64, signature=(-1, 1))
    (places,) = file.operator("WHERE", [x], {"places": open_ended})
    content = file.build(*file.operator("ADD", [places, file.constant(np.array([7]))], {"y": open_ended}, ADD))
    for options in ({}, {"ops": "WHERE"}, {"ops": "ADD"}):
        one, plain = made(content, **options), interpreter(content)
        for count in (3, 2000, 1, 2000):
            given = np.arange(3000) < count
            assert_same(answers(one, given), answers(plain, given))
        assert len(parts(one)) == 1


def test_control_flow_is_taken_as_a_whole(made: Made) -> None:
    file = TfliteFile()
    then = file.subgraph(unary(file, "ABS", file.input("x", floats(2, 3)), "r"))
    otherwise = file.subgraph(unary(file, "NEG", file.input("x", floats(2, 3)), "r"))
    given = [file.input("wanted", booleans()), file.input("x", floats(2, 3))]
    options = ("IfOptions", {"ThenSubgraphIndex": then, "ElseSubgraphIndex": otherwise})
    (chosen,) = file.operator("IF", given, {"b": floats(2, 3)}, options)
    factor = file.constant(np.full(1, -2, np.float32))
    content = file.build(*file.operator("MUL", [chosen, factor], {"y": floats(2, 3)}, ("MulOptions", {})))
    one, plain, x = made(content), interpreter(content), random(2, 3)
    for wanted in (True, False):
        assert_same(answers(one, np.array(wanted), x), answers(plain, np.array(wanted), x))
    assert len(parts(one)) == 1


def test_variables_keep_their_values_from_run_to_run(made: Made, tmp_path: Path) -> None:
    path = tmp_path / "sum.tflite"
    path.write_bytes(running_sum())
    one, ones = made(path), np.ones(3, np.float32)
    one.allocate_tensors()
    (detail,) = one.get_input_details()
    for total in (11, 12, 13):
        one.set_tensor(detail["index"], ones)
        one.invoke()
        assert one.get_tensor(one.get_output_details()[0]["index"])[0] == total
    assert len(parts(one)) == 1
    assert_same(answers(made(path), ones), [np.array([11, 21, 31], np.float32)])


def test_variables_begin_anew_when_the_interpreter_resets_them(made: Made) -> None:
    file = TfliteFile()
    weights = [file.constant(random(*shape, seed=seed)) for seed, shape in enumerate(((2, 2), (2, 3), (2,)))]
    given = [file.input("x", floats(1, 2)), *weights, file.variable("state", floats(1, 6))]
    content = file.build(*file.operator("SVDF", given, {"y": floats(1, 2)}, ("SVDFOptions", {"Rank": 1})))
    results: list[list[Array]] = []
    for one in (made(content), interpreter(content)):
        one.allocate_tensors()
        found: list[Array] = []
        results.append(found)
        for run in range(6):
            if run == 4:
                one.reset_all_variables()
            one.set_tensor(given[0], random(1, 2, seed=run))
            one.invoke()
            found.append(one.get_tensor(one.get_output_details()[0]["index"]))
    for got, expected in zip(*results, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6)
    assert len(parts(made(content))) == 1


def test_a_file_without_constants_is_found_if_it_has_a_path(made: Made, tmp_path: Path) -> None:
    file = TfliteFile()
    content = file.build(unary(file, "ABS", file.input("a", floats(2, 3)), "y"))
    with pytest.raises(RuntimeError, match="the option 'model' names the model's file"):
        made(content)
    path = tmp_path / "model.tflite"
    path.write_bytes(content)
    given = random(2, 3)
    for one in (made(path), made(content, model=str(path))):
        assert_same(answers(one, given), [abs(given)])


def test_threads_have_interpreters_of_their_own(made: Made) -> None:
    wrong: list[int] = []

    def run(seed: int) -> None:
        one, given = made(negated_sum()), random(2, 3, seed=seed)
        wrong.extend(seed for _ in range(50) if not np.array_equal(answers(one, given)[0], -(given + 1)))

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_one_delegate_serves_several_interpreters(library: str, testbed: Testbed) -> None:
    delegate = load_delegate(library, {"framework": str(testbed.framework)})
    given = random(2, 3)
    for _ in range(3):
        one = interpreter(negated_sum(), experimental_delegates=[delegate])
        assert_same(answers(one, given), [-(given + 1)])


def test_interpreters_leave_nothing_behind(made: Made, testbed: Testbed) -> None:
    def descriptors() -> list[int]:
        pids = [os.getpid(), *(process.pid for process in testbed.processes)]
        return [len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids]

    def use() -> None:
        answers(made(negated_sum()), random(2, 3))

    for _ in range(3):
        use()
    before = settled(descriptors)
    for _ in range(INTERPRETERS):
        use()

    def have_few_more() -> bool:
        # What is left of one interpreter would be left of each; a process may open some for itself meanwhile.
        return all(now < then + INTERPRETERS // 2 for now, then in zip(descriptors(), before, strict=True))

    wait_until(have_few_more, "about as many descriptors as before")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"framework": "/nowhere"}, "/nowhere/link.sock"),
        ({"partitioner": "best"}, "option partitioner is 'best', expected one of"),
        ({"devises": "cpu_acc"}, "unknown option 'devises', expected framework, model, ops, devices"),
    ],
)
def test_what_a_delegate_cannot_be_told_is_refused(
    library: str, testbed: Testbed, options: dict[str, str], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        load_delegate(library, {"framework": str(testbed.framework), **options})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"devices": "npu9"}, "no device 'npu9'; there are cpu_acc, cpu_ref"),
        ({"model": "/nowhere.tflite"}, "the model's file /nowhere.tflite: No such file"),
        ({"model": __file__}, "is no TFLite file"),
    ],
)
def test_what_cannot_be_had_is_an_error_and_not_the_cpu(made: Made, options: dict[str, str], words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        made(negated_sum(), **options)


def test_another_models_file_is_refused(made: Made, tmp_path: Path) -> None:
    file = TfliteFile()
    path = tmp_path / "other.tflite"
    path.write_bytes(file.build(unary(file, "ABS", file.input("a", floats(2, 3)), "y")))
    with pytest.raises(RuntimeError, match=r"other.tflite has no graph with the nodes and tensors"):
        made(negated_sum(), model=str(path))


@pytest.mark.parametrize("signature", [(), (-1, 3), (2, -1)])
def test_a_device_that_reports_dimensions_which_the_model_cannot_have_gives_no_answer(
    made: Made, testbed: Testbed, tmp_path: Path, signature: tuple[int, ...]
) -> None:
    file, spec, path = TfliteFile(), Spec((2, 3), signature=signature), tmp_path / "relu.tflite"
    path.write_bytes(file.build(unary(file, "RELU", file.input("x", spec), "y", spec)))
    one = made(path, model=str(path), devices="cpu_acc")
    assert_same(answers(one, np.ones((2, 3))), [np.ones((2, 3), np.float32)])
    with FaultControl(Endpoint(testbed.directory / "cpu_acc")) as control:
        control.set({"what": "shapes"})
        with pytest.raises(RuntimeError, match=r"dimensions \[2, 4\] of "):
            one.invoke()
        control.clear()
    assert_same(answers(one, np.ones((2, 3))), [np.ones((2, 3), np.float32)])


def test_an_interpreter_outlives_its_framework(library: str) -> None:
    given = random(2, 3)
    with tempfile.TemporaryDirectory(prefix="nnhal-") as name:
        directory = Path(name)
        with started(directory) as bed:
            delegate = load_delegate(library, {"framework": str(bed.framework)})
            one = interpreter(negated_sum(), experimental_delegates=[delegate])
            assert_same(answers(one, given), [-(given + 1)])
        with pytest.raises(RuntimeError, match=r"nnhal: "):
            one.invoke()
        with started(directory):
            assert_same(answers(one, given), [-(given + 1)])


def test_a_forked_process_has_a_session_of_its_own(library: str, testbed: Testbed, tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(negated_sum())
    program = f"""
        import os, numpy
        from ai_edge_litert.interpreter import Interpreter, OpResolverType, load_delegate
        delegate = load_delegate({library!r}, {{"framework": {str(testbed.framework)!r}}})
        one = Interpreter({str(path)!r}, experimental_delegates=[delegate])
        one.allocate_tensors()
        def run():
            one.set_tensor(0, numpy.ones((2, 3), numpy.float32))
            one.invoke()
            return one.get_tensor(one.get_output_details()[0]["index"]).tolist()
        assert run() == [[-2.0] * 3] * 2
        if (child := os.fork()) == 0:
            os._exit(run() != [[-2.0] * 3] * 2)
        assert os.waitpid(child, 0)[1] == 0
        assert run() == [[-2.0] * 3] * 2
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stderr


@examples(10)
@given(case=st.booleans().flatmap(lambda empties: models(MAKERS, 4, empties, TfliteDrawing)))
def test_random_models_are_answered_as_by_litert(made: Made, tmp_path: Path, case: Case | None) -> None:
    if case is not None:
        path = tmp_path / "random.tflite"
        path.write_bytes(case.content)
        delegated = made(path, model=str(path))
        names = [detail["name"] for detail in delegated.get_output_details()]
        given = [case.inputs[detail["name"]] for detail in delegated.get_input_details()]
        assert case.differences(dict(zip(names, answers(delegated, *given), strict=True))) == []
