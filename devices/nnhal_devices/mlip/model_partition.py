"""A model of the HAL in the compile flow: what the accelerator takes of it, and in which subgraphs."""

from __future__ import annotations

from dataclasses import dataclass

from nnhal.layouts import channels_last

from nnhal.resolved import ResolvedModel
from nnhal_devices.mlip.flow.partition.flow_partition import FlowOptions, FlowPartition
from nnhal_devices.mlip.flow.partition.partitioning import partition
from nnhal_devices.mlip.importing.model_import import ImportedHalModel, import_hal_model


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
    if public:
        imported = import_hal_model(model)
    else:
        converted = channels_last(model)
        imported = import_hal_model(converted.model, converted.origins)
    return PartitionedHalModel(imported, partition(imported.graph, FlowOptions(not public, revert)))
