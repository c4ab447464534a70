"""Subgraphs that mlip takes of a model of the HAL, and its reasons to refuse the rest: by the checks of its flow."""

from __future__ import annotations

from dataclasses import dataclass

from nnhal.resolved import ResolvedModel
from nnhal.support import MORE, SUPPORTED, OperationLimit, Support, Unsupported, constants_of, limit_of
from nnhal.support.npu import MAX_RANK
from nnhal_mlip.flow.flow_partition import FlowOptions, FlowPartition, Objection
from nnhal_mlip.flow.partition.partitioning import partition
from nnhal_mlip.importing.conditions import ACCEPTED_FLOATS, ACCEPTED_TYPES
from nnhal_mlip.importing.model_import import ImportedHalModel, import_hal_model, is_opaque
from nnhal_mlip.importing.rules import IMPORT_RULES


@dataclass(frozen=True, slots=True)
class PartitionedHalModel:
    """A model that was imported, and the partition of its graph."""

    imported: ImportedHalModel
    partition: FlowPartition


def partition_model(
    model: ResolvedModel, public: bool, revert: bool = False, whole: bool = False
) -> PartitionedHalModel:
    """Import a model and partition it. ``whole`` is as in ``FlowOptions``."""
    imported = import_hal_model(model, beyond=not public)
    return PartitionedHalModel(imported, partition(imported.graph, FlowOptions(not public, revert, whole=whole)))


def operation_limits() -> list[OperationLimit]:
    """Return what is known of the operations that can be imported; the flow's checks see the whole model."""
    return [
        limit_of(
            code,
            ACCEPTED_FLOATS if rule.floats else ACCEPTED_TYPES,
            f"known dimensions of rank 1 to {MAX_RANK}",
            "",
            constants_of(rule.constants),
            MORE,
        )
        for code, rule in sorted(IMPORT_RULES.items())
    ]


def supported_operations(model: ResolvedModel, public: bool = False) -> list[Support]:
    """Return an answer for each operation of the main subgraph.

    Each operation that is supported can be compiled alone, or with any others. If ``public``, the rules are those of
    the public flow, which also gives up subgraphs that are not worth the hand-over.
    """
    refusals = refusals_of(partition_model(model, public, revert=public, whole=True))
    return [refusals.get(number, SUPPORTED) for number in range(len(model.model.main.operations))]


def refusals_of(parts: PartitionedHalModel) -> dict[int, Unsupported]:
    """Return why operations are not taken, by their numbers. Of an operation with several nodes the first counts.

    An opaque node also stands for operations behind it that do nothing: those are taken.
    """
    refusals = dict(parts.imported.refusals)
    for node in parts.partition.host:
        for source in () if is_opaque(node) else node.sources:
            refusals.setdefault(source.number, _refusal(parts.partition.objections[node.output]))
    return refusals


def _refusal(objection: Objection) -> Unsupported:
    check = f" ({objection.check})" if objection.check else ""
    return Unsupported(objection.code, objection.got, objection.allowed + check, objection.hint)
