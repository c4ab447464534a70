"""Random models on all devices: those of ONNX beside ONNX Runtime without optimisations, those of TFLite beside LiteRT.

``NNHAL_RANDOM_MODELS=N`` draws N models of each kind, others each time, and keeps what fails in .hypothesis/.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnhal.errors import HalError
from nnhal_client import Model
from nnhal_client.framework import Framework, connect
from nnhal_tools.up import DeviceEntry, Testbed, Topology
from tests.support import tflite_drawing
from tests.support.onnx_operators import MAKERS
from tests.support.processes import WARM
from tests.support.random_models import Case, examples, models, parsed
from tests.support.testbeds import framework_over, kill_for_good
from tests.support.tflite_drawing import TfliteDrawing
from tests.support.tflite_files import Spec, booleans, floats, int8, int32
from tests.support.tflite_operators import by_any_kernel, numbers, one

DEFAULT = ("cpu_acc", "cpu_ref")
DEVICES = (DEFAULT, ("cpu_ref",), *((npu, "cpu_ref") for npu in ("gpu_acc", "ethos_n", "ethos_u", "mlip")))


@pytest.fixture(scope="module")
def framework() -> Iterator[Framework]:
    names = dict.fromkeys(name for devices in DEVICES for name in devices)
    with framework_over(*(DeviceEntry(driver=name) for name in names)) as session:
        yield session


def require_same(framework: Framework, path: Path, case: Case | None, choices: Sequence[tuple[str, ...]]) -> None:
    """Check that a model's answers are ONNX Runtime's, or that the reference refuses it before it runs."""
    if case is None:
        return
    path.write_bytes(case.content)
    for devices in choices:
        try:
            model = framework.load(path, devices)
        except HalError as error:
            assert devices != DEFAULT, error
            assert "no device takes" in str(error), (devices, error)
            continue
        with model:
            assert case.differences(answers(model, case)) == [], devices


def answers(model: Model, case: Case) -> dict[str, Any]:
    """Run a model once, with its states as they are before any run."""
    if not model.states:
        return model.run(case.inputs)
    with model.bind(dimensions={name: array.shape for name, array in case.inputs.items()}) as binding:
        for name, array in case.inputs.items():
            binding.inputs[name][...] = array
        binding.run()
        return {name: binding.value(name) for name in binding.outputs}


FOUND = {
    "Where": "(bool[2,1,3] c, float[2,n2,3] a, float[2,2,3] b) => (float[] y) { y = Where(c, a, b) }",
    "Expand": "(float[n1,3] a) => (float[] y) <int64[2] s = {2, 3}> { y = Expand(a, s) }",
    "AveragePool": """(float[2,n2,3] a) => (float[] y)
        { y = AveragePool<kernel_shape=[3], pads=[1, 2], count_include_pad=1>(a) }""",
    "ConvTranspose": """(float[1,2,7,4] a, float[2,1,1,2] w) => (float[] y)
        { y = ConvTranspose<auto_pad="SAME_LOWER", strides=[1, 3], output_padding=[0, 1]>(a, w) }""",
    "OneHot": "(float[4] a, int64[2] v) => (int64[] y) <int64 d = {4}> { y = OneHot<axis=-2>(a, d, v) }",
    "ArgMax": "(float[2,0,3] a) => (int64[] y, int64[] z) { y = ArgMax<axis=-1>(a) z = ArgMin<axis=0, keepdims=0>(a) }",
    "Mean": "(float[4,1] a, float[0,4,3] b) => (float[] y) { y = Mean(a, b) }",
    "Pad": """(float[3,n4] a) => (float[] y) <int64[2] p = {-1, 1}, int64[1] x = {1}>
        { y = Pad<mode="reflect">(a, p, "", x) }""",
    "lengths that vary": """(float[n3,4] a, float[4,n2] b, bool[0] c) => (float[] y, bool[] z)
        { y = MatMul(a, b) z = Not(c) }""",
    "ConvTranspose of open batches": """(float[n1,2,4,7] a, float[2,1,2,2] w) => (float[] y)
        { y = ConvTranspose<auto_pad="SAME_LOWER", output_padding=[2, 0], strides=[3, 1]>(a, w) }""",
    "Slice": """(int8[1] a) => (int8[] y) <int64[1] p = {-5}, int64[1] q = {-6}, int64[1] x = {0}, int64[1] s = {-1}>
        { y = Slice(a, p, q, x, s) }""",
    "Where of codes": """(float[2,4] a, bool[2,4] c) => (int8[] y)
        <float s = {0.01}, int8 z = {4}> { v = QuantizeLinear(a, s, z) y = Where(c, v, v) }""",
    "the mean of nothing": "(float[2,n0,3] a) => (float[] y) <int64[1] x = {1}> { y = ReduceMean(a, x) }",
    "pads that take away": """(float[2,n0] a, float[2,n3] b) => (float[] y, float[] z)
        <int64[4] p = {1, 1, 0, -1}, int64[4] q = {0, -4, 0, 1}> { y = Pad(a, p) z = Pad(b, q) }""",
    "Optional": """(float[2,n3] a) => (float[] y, bool z, float[] s)
        { o = Optional(a) y = OptionalGetElement(o) z = OptionalHasElement(o)
          q = SequenceConstruct(a, y) p = Optional(q) e = OptionalGetElement(p) s = ConcatFromSequence<axis=1>(e) }""",
    "no axes": """(float[1,2,3,n3] a) => (float[] y)
        { b = MeanVarianceNormalization(a) y = Abs(b) }""",
    "Softsign": "(float a) => (float[] y) { b = ReduceLogSumExp(a) y = Softsign(b) }",
    "a large constant": """(bool[n2] a) => (double[] y, bool[] z) <double k = {1.5}, int64[2] s = {20, 20}>
        { y = Expand(k, s) z = Not(a) }""",
}
"""Models that were answered otherwise than by ONNX Runtime once. An axis nN is open, and N long."""

FOUND_TFLITE = {
    "rank 0 by LiteRT": one("RIGHT_SHIFT", [int32(), int32()], int32(), values={1: 1}),
    "FILL of rank 0": one("FILL", [numbers([]), int8()], int8()),
    "STRIDED_SLICE": one(
        "STRIDED_SLICE", [floats(2, 3), int32(1), numbers([2]), numbers([1])], floats(1, 3), values={1: [1]}
    ),
    "STRIDED_SLICE of a place": one(
        "STRIDED_SLICE",
        [floats(4, 2), int32(1), numbers([6]), numbers([1])],
        floats(2),
        ("StridedSliceOptions", {"ShrinkAxisMask": 1}),
        values={1: [1]},
    ),
    "BATCH_MATMUL": one(
        "BATCH_MATMUL",
        [int8(3, 3, 1), Spec((1, 2, 1), np.int8, 0.05, signature=(1, -1, -1))],
        int8(3, 3, 2),
        ("BatchMatMulOptions", {"AdjY": True}),
    ),
    "SPLIT_V": one(
        "SPLIT_V",
        [Spec((2, 2), signature=(-1, 2)), numbers([0, -1]), numbers(0)],
        [Spec((0, 2), signature=(-1, 2)), Spec((2, 2), signature=(-1, 2))],
        ("SplitVOptions", {"NumSplits": 2}),
    ),
    "TOPK_V2": one("TOPK_V2", [int32(2, 6), numbers(4)], [int32(2, 4), int32(2, 4)]),
    "booleans without elements": one(
        "CONCATENATION",
        [(np.zeros((2, 0)), booleans(2, 0)), booleans(2, 1)],
        booleans(2, 1),
        ("ConcatenationOptions", {"Axis": 1}),
    ),
    "a constant without elements": one("LOG", [(np.zeros((4, 0)), int8(4, 0))], int8(4, 0)),
    **{
        f"{code} of open channels": one(
            code,
            [Spec((1, 3, 3, 4), signature=(1, 3, 3, -1)), np.ones(shape, np.float32), *bias],
            Spec((1, 3, 3, 4), signature=(1, 3, 3, -1)),
            (options, {"StrideH": 1, "StrideW": 1}),
        )
        for code, shape, options, bias in (
            ("CONV_2D", (4, 1, 1, 2), "Conv2DOptions", [np.ones(4, np.float32)]),
            ("DEPTHWISE_CONV_2D", (1, 2, 2, 4), "DepthwiseConv2DOptions", []),
        )
    },
    "COS of large angles": one("COS", [floats(4)], floats(4), values={0: [1e5, 1.5e6, -3e30, 3.4e38]}),
    "the extreme of nothing": one("REDUCE_MAX", [floats(2, 0), numbers([1])], floats(2)),
    "the mean of nothing": one("MEAN", [floats(2, 0), numbers([1])], floats(2)),
    "the mean of no codes": one("MEAN", [Spec((0, 2), np.int8, 0.05, 3, signature=(-1, 2)), numbers([0])], int8(2)),
    "no booleans": one(
        "SQUEEZE",
        [(np.zeros((1, 0), bool), Spec((1, 0), np.bool_))],
        Spec((0,), np.bool_),
        ("SqueezeOptions", {"SqueezeDims": [0]}),
    ),
    "an output without elements": one("DEQUANTIZE", [(np.zeros((0, 1)), int8(0, 1))], floats(0, 1)),
}
"""Files that were answered otherwise than by LiteRT once."""


@pytest.mark.parametrize("devices", DEVICES)
def test_models_that_were_found(framework: Framework, tmp_path: Path, devices: tuple[str, ...]) -> None:
    for text in FOUND.values():
        require_same(framework, tmp_path / "found.onnx", parsed(text), [devices])
    for file in FOUND_TFLITE.values():
        answers = by_any_kernel(file.file(), file.arrays())
        expected = {f"y{index}": answer for index, answer in enumerate(answers)}
        limits = {name: int(bool(file.outputs[0].scale)) for name in expected}
        case = Case(file.file(), file.arrays(), expected, limits, file.code)
        require_same(framework, tmp_path / "found.tflite", case, [devices])


@examples(10)
@given(case=models(MAKERS, 6), others=st.sampled_from(DEVICES[1:]))
def test_random_models(
    framework: Framework, tmp_path_factory: pytest.TempPathFactory, case: Case | None, others: tuple[str, ...]
) -> None:
    require_same(framework, tmp_path_factory.getbasetemp() / "random.onnx", case, [DEFAULT, others])


@examples(10)
@given(case=models(MAKERS, 4, empties=True), others=st.sampled_from(DEVICES[1:]))
def test_models_of_empty_values(
    framework: Framework, tmp_path_factory: pytest.TempPathFactory, case: Case | None, others: tuple[str, ...]
) -> None:
    require_same(framework, tmp_path_factory.getbasetemp() / "empty.onnx", case, [DEFAULT, others])


@examples(10)
@given(
    case=st.booleans().flatmap(lambda empties: models(tflite_drawing.MAKERS, 4, empties, TfliteDrawing)),
    others=st.sampled_from(DEVICES[1:]),
)
def test_random_models_of_tflite(
    framework: Framework, tmp_path_factory: pytest.TempPathFactory, case: Case | None, others: tuple[str, ...]
) -> None:
    require_same(framework, tmp_path_factory.getbasetemp() / "random.tflite", case, [DEFAULT, others])


def test_answers_stay_the_same_after_a_device_has_died(short_path: Path, tmp_path: Path) -> None:
    cases: list[Case] = []

    @examples(10)
    @given(case=models(MAKERS, 4))
    def collect(case: Case | None) -> None:
        if case is not None:
            cases.append(case)

    collect()
    topology = Topology(device=tuple(DeviceEntry(driver=name) for name in DEFAULT))
    with Testbed(topology, short_path, zygote=WARM) as bed, connect(bed.framework) as framework:
        loaded = []
        for number, case in enumerate(cases):
            path = tmp_path / f"{number}.onnx"
            path.write_bytes(case.content)
            with suppress(HalError):  # the reference refuses it at planning, and so says that there is no substitute
                framework.load(path, ("cpu_ref",)).unload()
                loaded.append((case, framework.load(path)))
        assert len(loaded) > len(cases) // 2
        kill_for_good(bed, "cpu_acc")
        for case, model in loaded:
            assert case.differences(model.run(case.inputs)) == []


@pytest.mark.parametrize("name", sorted(MAKERS))
@examples(2)
@given(data=st.data())
def test_each_operator(
    framework: Framework, tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    case = data.draw(models({name: MAKERS[name]}, 1, empties=True))
    require_same(framework, tmp_path_factory.getbasetemp() / "one.onnx", case, DEVICES[:3])
