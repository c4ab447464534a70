from __future__ import annotations

import pytest

from nnhal.resolved import ResolvedModel
from nnhal.support import SUPPORTED, Unsupported
from nnhal.types import ExtensionNameAndPrefix, Operand, OperationType
from nnhal_devices.cpu_ref.support import supported_operations
from tests.support.subgraphs import B8, I32, Program

FOREIGN = (1 << 16) + 7


def nested(code: int) -> ResolvedModel:
    """main: an addition and an IF. In one branch is another IF, whose branches have an operation of type ``code``."""
    program = Program()
    main, outer, inner, plain = (program.graph() for _ in range(4))
    inner.returns(inner.operation(code, [inner.input()], Operand(I32, (1,))))  # type: ignore[arg-type]
    plain.returns(plain.operation(OperationType.ABS, [plain.input()], Operand(I32, (1,))))
    x = outer.input()
    always = outer.constant([1], B8)
    outer.returns(outer.operation(OperationType.IF, [always, *[outer.reference(inner)] * 2, x], Operand(I32, (1,))))
    x = main.input()
    added = main.add(x, x)
    branches = [main.reference(plain), main.reference(outer)]
    main.returns(main.operation(OperationType.IF, [main.input(code=B8), *branches, added], Operand(I32, (1,))))
    extensions = (ExtensionNameAndPrefix("com.example.ops", 1),)
    model = program.model()
    return ResolvedModel(
        type(model)(model.main, model.referenced, model.operand_values, extension_name_to_prefix=extensions), ()
    )


@pytest.mark.contract("PM-17")
def test_control_flow_is_supported_as_far_as_what_it_runs_is() -> None:
    assert supported_operations(nested(OperationType.ABS)) == [SUPPORTED, SUPPORTED]
    addition, condition = supported_operations(nested(FOREIGN))
    assert addition == SUPPORTED
    assert isinstance(condition, Unsupported)
    assert condition.code == "OP"
    assert "operation 7 of com.example.ops in referenced subgraph 1" in condition.got
