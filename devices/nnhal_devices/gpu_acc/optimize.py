"""What the device makes of a subgraph: that is what it runs, too."""

from __future__ import annotations

from nnhal.resolved import ResolvedModel
from nnhal.types import OperationType
from nnhal_devices.backend import OptimizationViews, Substitution
from nnhal_devices.gpu_acc.fusion import fusions


def optimize(model: ResolvedModel) -> OptimizationViews:
    """See Backend. It fails on nothing: whatever is supported runs, fused or not."""
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
