"""Outlines of files that a device has compiled as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from nnhal_frontends import DEFAULT_LIMITS, import_model, import_whole_file
from nnhal_frontends.imported import ImportedModel
from nnhal_service.runtime import CacheDirectory
from nnhal_service.runtime.loading.outlines import keep_outline, kept_outline
from tests.support.onnx_models import onnx_model, random
from tests.support.tflite_files import TfliteFile, floats

CONSTANTS = {"w": random(64, 128, seed=1)}


@pytest.fixture
def directory(tmp_path: Path) -> CacheDirectory:
    return CacheDirectory(tmp_path / "cache", bytes(32))


def onnx_content(rows: int | str) -> bytes:
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    return onnx_model([node], {"x": [rows, 64]}, ["y"], CONSTANTS).SerializeToString()


def tflite_content(rows: int = 2) -> bytes:
    file = TfliteFile()
    x, y = (file.input(name, floats(rows, 3)) for name in ("x", "y"))
    (product,) = file.operator("MUL", [x, y], {"product": floats(rows, 3)})
    return file.build(*file.operator("ADD", [product, y], {"z": floats(rows, 3)}))


def whole(rows: int | str) -> ImportedModel:
    imported = import_whole_file(onnx_content(rows), {})
    assert imported is not None
    return imported


@pytest.mark.parametrize(
    "imported",
    [whole(2), whole("rows"), import_model(tflite_content())],
    ids=["onnx", "open dimensions", "tflite"],
)
def test_an_outline_has_what_users_see_of_a_file_and_no_weights(
    directory: CacheDirectory, imported: ImportedModel
) -> None:
    imported = replace(imported, warnings=("a warning",), signatures=("serve",))
    keep_outline(directory, imported, DEFAULT_LIMITS)
    outline = kept_outline(directory, DEFAULT_LIMITS)
    assert outline is not None
    for own, kept in zip(border(imported).values(), border(outline).values(), strict=True):
        assert own == kept
    assert (outline.warnings, outline.signatures, outline.node_count) == (
        ("a warning",),
        ("serve",),
        imported.node_count,
    )
    assert (outline.model.operand_values, outline.model.pools) == (b"", ())
    assert len(outline.model.main.operations) == 1
    (file,) = directory.path.iterdir()
    assert file.stat().st_size < 2000
    assert file.stat().st_mode & 0o777 == 0o600


def border(imported: ImportedModel) -> Mapping[str, object]:
    """What is known of each input and output."""
    operands, names = imported.model.main.operands, imported.operand_names
    tensors = (*imported.inputs, *imported.outputs)
    return {t.name: (replace(t, operand=0), operands[t.operand], names[t.operand]) for t in tensors}


def test_of_a_model_whose_outputs_follow_from_open_inputs_by_its_operations_none_is_kept(
    directory: CacheDirectory,
) -> None:
    keep_outline(directory, import_model(onnx_content("rows")), DEFAULT_LIMITS)
    assert kept_outline(directory, DEFAULT_LIMITS) is None


def test_an_outline_is_found_by_its_token_and_limits_only(directory: CacheDirectory) -> None:
    keep_outline(directory, whole(2), DEFAULT_LIMITS)
    assert kept_outline(directory.of_variant("other"), DEFAULT_LIMITS) is None
    assert kept_outline(directory, replace(DEFAULT_LIMITS, nodes=7)) is None
    assert kept_outline(directory, DEFAULT_LIMITS) is not None


@pytest.mark.parametrize("length", [0, 31, 32, 40, 100])
def test_a_damaged_outline_is_none(directory: CacheDirectory, length: int) -> None:
    keep_outline(directory, whole(2), DEFAULT_LIMITS)
    (file,) = directory.path.iterdir()
    content = file.read_bytes()
    file.write_bytes(content[:length])
    assert kept_outline(directory, DEFAULT_LIMITS) is None
    file.write_bytes(content[:length] + b"?" + content[length + 1 :])
    assert kept_outline(directory, DEFAULT_LIMITS) is None
    file.write_bytes(content)
    assert kept_outline(directory, DEFAULT_LIMITS) is not None


def test_a_directory_that_cannot_be_made_keeps_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    directory = CacheDirectory(tmp_path / "file" / "cache", bytes(32))
    keep_outline(directory, whole(2), DEFAULT_LIMITS)
    assert kept_outline(directory, DEFAULT_LIMITS) is None


def test_tensors_of_other_elements_than_numpys_are_as_they_were(directory: CacheDirectory) -> None:
    imported = whole(2)
    text = replace(imported.inputs[0], element_type=np.dtype(object), kind="tensor of strings")
    keep_outline(directory, replace(imported, inputs=(text,)), DEFAULT_LIMITS)
    outline = kept_outline(directory, DEFAULT_LIMITS)
    assert outline is not None
    assert outline.inputs[0].element_type == np.dtype(object)


def test_an_outline_that_cannot_be_kept_leaves_nothing(directory: CacheDirectory) -> None:
    keep_outline(directory, whole(2), DEFAULT_LIMITS)
    (place,) = directory.path.iterdir()
    place.unlink()
    place.mkdir()
    keep_outline(directory, whole(2), DEFAULT_LIMITS)
    assert list(directory.path.iterdir()) == [place]
    assert kept_outline(directory, DEFAULT_LIMITS) is None
