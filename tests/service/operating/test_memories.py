"""Shared memory by its names: what a model's constants are to operators."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from nnhal.memory import create_ashmem
from nnhal.types import OperandLifeTime
from nnhal_service.operating.memories import pools_of
from nnhal_service.serving import ServedModel


class _Loaded:
    """A loaded model of some constants in one pool; its only step has a pool of its own besides."""

    def __init__(self, names: list[str], pools: list[Any]) -> None:
        constant = OperandLifeTime.CONSTANT_POOL
        operands = [SimpleNamespace(lifetime=constant, location=SimpleNamespace(pool_index=0)) for _ in names]
        operations = [SimpleNamespace(inputs=(number,)) for number in range(len(names))]
        model = SimpleNamespace(main=SimpleNamespace(operands=operands, operations=operations), pools=pools[:1])
        nodes = [(f"node{number}",) for number in range(len(names))]
        imported = SimpleNamespace(model=model, operand_names=names, operation_nodes=nodes)
        step = SimpleNamespace(source=None, model=SimpleNamespace(pools=pools), device="npu")
        plan = SimpleNamespace(steps=[step])
        self.original = SimpleNamespace(survey=SimpleNamespace(imported=imported), plan=plan)
        self.contexts = ()


def test_constants_are_named_by_model_tensor_and_step() -> None:
    loaded = _Loaded(["weights", "", "bias", "a", "b", "c"], [create_ashmem(64), create_ashmem(128)])
    served = cast(ServedModel, SimpleNamespace(loaded=loaded, name="net", version="3"))
    for _ in range(2):  # once more from what is kept
        assert [(pool.bytes, pool.purpose) for pool in pools_of((), [served])] == [
            (64, "constants of net 3: weights, of node1, bias, a and 2 more"),
            (128, "constants of net 3, step 0 on npu"),
        ]
