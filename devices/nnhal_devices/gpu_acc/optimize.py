"""The optimisation views of a subgraph: the device runs it as they say."""

from __future__ import annotations

from nnhal.resolved import ResolvedModel
from nnhal.types import OperationType
from nnhal_devices.backend import OptimizationViews, Substitution
from nnhal_devices.gpu_acc.fusion import fusions


def optimize(model: ResolvedModel) -> OptimizationViews:
    """Fuse activations. No subgraph fails: each supported operation runs, fused or not."""
    operations, found = model.model.main.operations, fusions(model)
    fused = {number for fusion in found for number in (fusion.operation, fusion.activation)}
    return OptimizationViews(
        substitutions=tuple(
            Substitution(
                (fusion.operation, fusion.activation),
                f"{OperationType(operations[fusion.operation].type).name} + "
                f"{OperationType(operations[fusion.activation].type).name} fused",
            )
            for fusion in found
        ),
        untouched=tuple(number for number in range(len(operations)) if number not in fused),
    )
