"""The steps of the flow by the names that the proposal for TVM gives them, for notebooks and scripts.

They lead from a model's file to a partition, to a pair of JSON files for each subgraph, to a binary, to its outputs.
The proposal begins with Relay, which TVM has removed; so here a step takes a file in ONNX or TFLite. It also names
MXNet, which is retired: export such a network to ONNX.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from nnhal.arrays import Array
from nnhal_mlip.command.model_file import read_flow_model
from nnhal_mlip.command.pair import compile_pair, run_binary
from nnhal_mlip.command.partition_report import share
from nnhal_mlip.flow.files.describing import describe
from nnhal_mlip.flow.files.options import parse_options
from nnhal_mlip.flow.flow_partition import FlowOptions, FlowPartition
from nnhal_mlip.timing.profile import read_profile

__all__ = ["build", "dump_json_meta_data_files", "partition_for_mrvl", "run"]


def partition_for_mrvl(
    model: str | os.PathLike[str],
    *,
    mattr: str = "",
    shapes: Mapping[str, Sequence[int]] | None = None,
    public: bool = False,
    keep: int | None = None,
    to_host: Sequence[str] = (),
) -> FlowPartition:
    """Return what the accelerator takes of an ONNX or TFLite model, and why not the rest.

    ``mattr`` has the words of the target, such as ``-num_tiles=4``. The other arguments are the options of ``nnhal
    mlip partition``.

    Raises OSError if the file cannot be read, and NnhalError or ValueError if something is not what it has to be.
    """
    target = parse_options(mattr)
    choices = FlowOptions(not public, keep=keep, to_host=tuple(to_host))
    graph = read_flow_model(Path(model), shapes, public).graph
    return share(graph, choices, read_profile(), target.num_tiles, target.wb_pin_ocm)


def dump_json_meta_data_files(
    partition: FlowPartition, folder: str | os.PathLike[str] = "."
) -> list[tuple[Path, Path]]:
    """Write the nodes file and the constants file of each subgraph into a folder, and return their paths.

    Raises OSError, and FlowFilesError, with the user's name of the layer, if a file cannot hold it.
    """
    Path(folder).mkdir(parents=True, exist_ok=True)
    return [describe(partition, subgraph).write(folder) for subgraph in partition.subgraphs]


def build(
    nodes: str | os.PathLike[str],
    constants: str | os.PathLike[str],
    *,
    quantize: str = "float16",
    num_tiles: int = 8,
    ocm_base: int = 0,
    ocm_size: int = 0x100000,
    wb_pin_ocm: bool = False,
    ranges: str | os.PathLike[str] | None = None,
) -> bytes:
    """Return the binary of a pair of files, as ``nnhal mlip build`` writes it. Raises what ``compile_pair`` does."""
    return compile_pair(
        Path(nodes),
        Path(constants),
        read_profile(),
        quantize=quantize,
        num_tiles=num_tiles,
        ocm_base=hex(ocm_base),
        ocm_size=hex(ocm_size),
        wb_pin_ocm=wb_pin_ocm,
        ranges=None if ranges is None else Path(ranges),
    ).binary


def run(binary: str | os.PathLike[str], inputs: Sequence[str | os.PathLike[str]]) -> list[Array]:
    """Return the outputs of a binary in float32. Inputs are npy files, or bytes as ``nnhal mlip run`` takes them."""
    _, found = run_binary(Path(binary), [Path(each) for each in inputs], read_profile())
    return [np.asarray(each, np.float32) for each in found.outputs]
