"""A model of the HAL in the compile flow: what the accelerator takes of it, and in which subgraphs."""

from __future__ import annotations

from dataclasses import dataclass

from nnhal.errors import HalError
from nnhal.layouts import channels_last
from nnhal.resolved import ResolvedModel
from nnhal_mlip.flow.flow_partition import FlowOptions, FlowPartition
from nnhal_mlip.flow.partition.partitioning import partition
from nnhal_mlip.importing.model_import import ImportedHalModel, import_hal_model


@dataclass(frozen=True, slots=True)
class PartitionedHalModel:
    """A model that was imported, and the partition of its graph."""

    imported: ImportedHalModel
    partition: FlowPartition


def partition_model(model: ResolvedModel, public: bool, revert: bool = False) -> PartitionedHalModel:
    """Import a model and partition it.

    Images with their channels first are converted, which the public flow does for graphs of other front ends only: if
    ``public``, operations on such images stay with other devices.
    """
    imported = import_hal_model(model) if public else _import_converted(model)
    return PartitionedHalModel(imported, partition(imported.graph, FlowOptions(not public, revert)))


def _import_converted(model: ResolvedModel) -> ImportedHalModel:
    try:
        converted = channels_last(model)
    except HalError:  # an operation contradicts itself: it is refused, and so are those with their channels first
        return import_hal_model(model)
    return import_hal_model(converted.model, converted.origins)
