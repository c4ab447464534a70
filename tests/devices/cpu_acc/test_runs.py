"""Support of ONNX Runtime for the messages of a model: asked of all together, and of each if one is refused."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import onnxruntime
import pytest
from onnx import ModelProto, helper

from nnhal.errors import HalError
from nnhal.extensions.onnx import MESSAGE, NAME, OPERATION, PREFIX, operand_code
from nnhal.resolved import ResolvedModel, inline_constants
from nnhal.support import SUPPORTED, Unsupported
from nnhal.types import (
    DataLocation,
    ExtensionNameAndPrefix,
    Model,
    Operand,
    OperandLifeTime,
    OperandType,
    Operation,
    Subgraph,
)
from nnhal_devices.cpu_acc import runs
from nnhal_devices.cpu_acc.blocked.block_size import block_channels
from nnhal_devices.cpu_acc.byte_sums import sums_saturate
from nnhal_devices.cpu_acc.driver import CpuAcc
from nnhal_devices.cpu_acc.runs import supported
from nnhal_devices.driver import DriverOptions, PrepareOptions
from nnhal_devices.remembered import Remembered

F32 = OperandType.TENSOR_FLOAT32


def message(operator: str, opset: int = 21, domain: str = "") -> bytes:
    """A message of one node, from x to y, of two floats each."""
    x, y = (helper.make_tensor_value_info(name, 1, [2]) for name in "xy")
    graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"], domain=domain)], "g", [x], [y])
    opsets = [helper.make_opsetid(name, opset) for name in dict.fromkeys(("", domain))]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def chain(messages: Sequence[bytes]) -> ResolvedModel:
    """A model in which each message reads what the one before has written."""
    content, operands = b"", [Operand(F32, (2,), lifetime=OperandLifeTime.SUBGRAPH_INPUT)]
    operations: list[Operation] = []
    for each in messages:
        location = DataLocation(0, len(content), len(each))
        content += each
        code = operand_code(MESSAGE)
        operands += [Operand(code, (len(each),), 0, 0, OperandLifeTime.CONSTANT_COPY, location), Operand(F32, (2,))]
        operations.append(Operation(OPERATION, (len(operands) - 2, len(operations) * 2), (len(operands) - 1,)))
    operands[-1] = Operand(F32, (2,), lifetime=OperandLifeTime.SUBGRAPH_OUTPUT)
    main = Subgraph(tuple(operands), tuple(operations), (0,), (len(operands) - 1,))
    model = Model(main, (), content, extension_name_to_prefix=(ExtensionNameAndPrefix(NAME, PREFIX),))
    return ResolvedModel(model, inline_constants(model))


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The nodes of each session that is made, with nothing remembered."""
    sums_saturate()  # both ask ONNX Runtime once, by sessions of their own
    block_channels()
    made: list[int] = []
    real = onnxruntime.InferenceSession

    def session(content: bytes, options: onnxruntime.SessionOptions, providers: list[str]) -> object:
        made.append(len(ModelProto.FromString(content).graph.node))
        return real(content, options, providers=providers)

    monkeypatch.setattr(onnxruntime, "InferenceSession", session)
    monkeypatch.setattr(runs, "_known", Remembered[str](64))
    return made


def test_one_session_tells_of_all_messages_and_is_remembered(sessions: list[int]) -> None:
    model = chain([message(name) for name in ("Erf", "Tanh", "Sin", "Erf")])
    assert supported(model) == dict.fromkeys(range(4), SUPPORTED)
    assert sessions == [3]  # equal messages are one
    assert supported(model) == dict.fromkeys(range(4), SUPPORTED)
    assert sessions == [3]


def test_each_is_asked_about_if_one_is_refused(sessions: list[int]) -> None:
    answers = supported(chain([message("Erf"), message("BitwiseNot"), message("Tanh")]))
    assert (answers[0], answers[2]) == (SUPPORTED, SUPPORTED)
    assert isinstance(answers[1], Unsupported)
    assert "BitwiseNot" in answers[1].got
    assert sessions == [3, 1, 1, 1]


def test_messages_that_name_other_opsets_are_asked_about_apart(sessions: list[int]) -> None:
    answers = supported(chain([message("Erf"), message("Gelu", 1, "com.microsoft"), message("Tanh")]))
    assert answers == dict.fromkeys(range(3), SUPPORTED)
    assert sorted(sessions) == [1, 2]


def test_of_a_model_that_is_one_message_no_session_is_made_to_foresee_its_support(sessions: list[int]) -> None:
    model, driver = chain([message("Erf")]), CpuAcc(DriverOptions())
    assert driver.foreseen_support(model) == [SUPPORTED]
    assert driver.foreseen_support(chain([message("Erf"), message("Tanh")])) is None
    assert sessions == []


def test_outputs_that_are_not_those_of_the_message_are_found_by_making_the_session() -> None:
    right = chain([message("Erf")])
    main, driver = right.model.main, CpuAcc(DriverOptions())
    (output,) = main.output_indexes
    operands = (*main.operands[:output], replace(main.operands[output], dimensions=(3,)), *main.operands[output + 1 :])
    wrong = replace(right, model=replace(right.model, main=replace(main, operands=operands)))
    assert driver.foreseen_support(wrong) == [SUPPORTED]
    (answer,) = driver.supported_operations(wrong)
    assert isinstance(answer, Unsupported)
    with pytest.raises(HalError, match=re.escape(f"got {answer.got}, allowed {answer.allowed}")):
        driver.prepare(wrong, PrepareOptions())


def test_operands_that_are_not_those_of_the_message_are_foreseen() -> None:
    broken = chain([message("Erf")])
    operands = (replace(broken.model.main.operands[0], dimensions=(3,)), *broken.model.main.operands[1:])
    model = replace(broken, model=replace(broken.model, main=replace(broken.model.main, operands=operands)))
    (answer,) = CpuAcc(DriverOptions()).foreseen_support(model) or ()
    assert isinstance(answer, Unsupported)
    assert answer.code == "SHAPE"
