"""Outlines of files: what users see of a file that one device has compiled as a whole, kept beside the compilation.

With both, a file is loaded without being imported: the device has all that it computes. An outline is a text in JSON
and a model of the HAL with the inputs and outputs only; its one operation stands for the file and is never executed. A
digest of both comes first. A problem with an outline never fails a load: the file is imported then.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from google.protobuf.message import DecodeError

from nnhal.codec import model_from_wire, model_to_wire
from nnhal.errors import HalError
from nnhal.extensions import onnx
from nnhal.private_folders import make_private_folder
from nnhal.types import ExtensionNameAndPrefix, Model, OperandLifeTime, Operation, Subgraph
from nnhal.v1 import model_pb2
from nnhal.whole_files import write_whole
from nnhal_frontends import ImportLimits
from nnhal_frontends.imported import ImportedModel, ImportedTensor
from nnhal_hosting.logs import get_logger
from nnhal_service.runtime.plan.compilation_cache import CacheDirectory, file_names

_FORM = "outline 1"
_KIND = "3"
"""The kind of its file, beside those of compilations."""
_DIGEST_BYTES, _LENGTH_BYTES = 32, 8
_MOST_BYTES = 16 << 20
_BORDER = {OperandLifeTime.SUBGRAPH_INPUT, OperandLifeTime.SUBGRAPH_OUTPUT}
_log = get_logger(__name__)


def keep_outline(directory: CacheDirectory, imported: ImportedModel, limits: ImportLimits) -> None:
    """Keep the outline of a file, unless more than its border must be known of it. A failure is logged."""
    outline = _outline_of(imported)
    if outline is None:
        return
    content = _encoded(outline)
    try:
        make_private_folder(directory.path)
        write_whole(_path(directory, limits), sha256(content).digest() + content)
    except (OSError, ValueError) as error:
        _log.warning("the outline of a file cannot be kept", reason=str(error))


def kept_outline(directory: CacheDirectory, limits: ImportLimits) -> ImportedModel | None:
    """Return the outline of a file that was imported within such limits; None if there is none."""
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError, DecodeError, HalError):
        make_private_folder(directory.path)
        with _path(directory, limits).open("rb") as file:
            found = file.read(_MOST_BYTES)
        content = found[_DIGEST_BYTES:]
        if sha256(content).digest() == found[:_DIGEST_BYTES]:
            return _decoded(content)
    return None


def _path(directory: CacheDirectory, limits: ImportLimits) -> Path:
    token = directory.of_variant(f"{_FORM} {_version()} {limits}").token
    return directory.path / file_names(token, _KIND, 1)[0]


@cache
def _version() -> str:
    return version("nnhal")


def _outline_of(imported: ImportedModel) -> ImportedModel | None:
    """The model with its border only; None if dimensions of outputs follow from others by its operations, or if it has
    a state or elements that have no name.
    """
    model, main = imported.model, imported.model.main
    places = {index: place for place, index in enumerate(dict.fromkeys((*main.input_indexes, *main.output_indexes)))}
    operands = tuple(main.operands[index] for index in places)
    is_one = len(main.operations) == 1 and main.operations[0].type == onnx.OPERATION
    is_known = all(operand.dimensions and 0 not in operand.dimensions for operand in operands)
    is_plain = not (imported.states or model.referenced or set(main.input_indexes) & set(main.output_indexes))
    types = [tensor.element_type for tensor in (*imported.inputs, *imported.outputs)]
    is_plain = is_plain and all(operand.lifetime in _BORDER for operand in operands)
    if not is_plain or not (is_one or is_known) or any(np.dtype(each.str) != each for each in types):
        return None
    inputs, outputs = (tuple(places[index] for index in each) for each in (main.input_indexes, main.output_indexes))
    names = {entry.name: entry for entry in model.extension_name_to_prefix}
    names.setdefault(onnx.NAME, ExtensionNameAndPrefix(onnx.NAME, onnx.PREFIX))
    graph = Subgraph(operands, (Operation(onnx.OPERATION, inputs, outputs),), inputs, outputs)

    def moved(tensors: Sequence[ImportedTensor]) -> tuple[ImportedTensor, ...]:
        return tuple(replace(tensor, operand=places[tensor.operand]) for tensor in tensors)

    return ImportedModel(
        Model(graph, extension_name_to_prefix=tuple(names.values())),
        moved(imported.inputs),
        moved(imported.outputs),
        ((),),
        (),
        tuple(imported.operand_names[index] for index in places),
        imported.warnings,
        signatures=imported.signatures,
        node_count=imported.node_count,
    )


def _encoded(outline: ImportedModel) -> bytes:
    text = json.dumps(
        {
            "inputs": [_tensor_to_json(tensor) for tensor in outline.inputs],
            "outputs": [_tensor_to_json(tensor) for tensor in outline.outputs],
            "names": outline.operand_names,
            "warnings": outline.warnings,
            "signatures": outline.signatures,
            "nodes": outline.node_count,
        }
    ).encode()
    message = model_to_wire(outline.model, _no_pool).SerializeToString()
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text + message


def _decoded(content: bytes) -> ImportedModel:
    """Raises DecodeError, HalError, LookupError, TypeError and ValueError for what ``_encoded`` does not make."""
    end = _LENGTH_BYTES + int.from_bytes(content[:_LENGTH_BYTES], "little")
    text = json.loads(content[_LENGTH_BYTES:end])
    return ImportedModel(
        model_from_wire(model_pb2.Model.FromString(content[end:]), _no_pool),
        tuple(map(_tensor_from_json, text["inputs"])),
        tuple(map(_tensor_from_json, text["outputs"])),
        ((),),
        (),
        tuple(text["names"]),
        tuple(text["warnings"]),
        signatures=tuple(text["signatures"]),
        node_count=text["nodes"],
    )


def _tensor_to_json(tensor: ImportedTensor) -> Mapping[str, object]:
    return {
        "name": tensor.name,
        "operand": tensor.operand,
        "element_type": tensor.element_type.str,
        "shape": tensor.shape,
        "kind": tensor.kind,
        "index": tensor.index,
    }


def _tensor_from_json(given: Mapping[str, Any]) -> ImportedTensor:
    return ImportedTensor(**{**given, "element_type": np.dtype(given["element_type"]), "shape": tuple(given["shape"])})


def _no_pool(_: object) -> NoReturn:
    raise ValueError("an outline has no pools")
