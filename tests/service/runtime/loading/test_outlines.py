"""Outlines of models, which are kept by all that their plans follow from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from onnx import helper

from nnhal.calibration import DeviceCalibration
from nnhal.remote import DeviceDescription, DeviceIdentity, RemoteDevice
from nnhal.types import DeviceType, NumberOfCacheFiles, Priority, TransferCosts
from nnhal_frontends import DEFAULT_LIMITS, ImportLimits, import_model, import_whole_file
from nnhal_frontends.imported import ImportedModel
from nnhal_service.partition import Options, Partitioning, Plan, Refined
from nnhal_service.partition import whole as step_of_all
from nnhal_service.runtime import CacheDirectory, FleetMember
from nnhal_service.runtime.devices.hangs import HangWatch
from nnhal_service.runtime.loading.outlines import ModelOutline, OutlinePlace
from nnhal_service.runtime.plan.sketch import PlanChoice, sketch_of
from nnhal_service.runtime.plan.survey import survey_unasked
from tests.support.onnx_models import onnx_model, random
from tests.support.picky import Picky
from tests.support.tflite_files import TfliteFile, floats

CONSTANTS = {"w": random(64, 128, seed=1)}
IDENTITY = DeviceIdentity("npu-1", DeviceType.ACCELERATOR, Picky("npu").capabilities, (), NumberOfCacheFiles(1, 1))
DESCRIPTION = DeviceDescription(
    "npu", frozenset({"ashmem", "hardware_buffer_blob"}), 16, True, 1, (), False, TransferCosts(), "a test"
)
NOT_CALLED = cast(RemoteDevice, None)
OPTIONS = Options()
CALIBRATION = DeviceCalibration("npu-1", 2.0, 1000.0, 10, 3.0, 1.1)


@pytest.fixture
def directory(tmp_path: Path) -> CacheDirectory:
    return CacheDirectory(tmp_path / "cache", bytes(32))


def place(
    directory: CacheDirectory,
    limits: ImportLimits = DEFAULT_LIMITS,
    options: Options = OPTIONS,
    identity: DeviceIdentity = IDENTITY,
    description: DeviceDescription = DESCRIPTION,
    calibration: DeviceCalibration | None = None,
) -> OutlinePlace:
    """Return where the outline of a model is that is planned over one device."""
    members = {"npu": FleetMember("npu", NOT_CALLED, identity, HangWatch(), calibration)}
    return OutlinePlace(directory, limits, options, members, {"npu": description})


def outline_of(imported: ImportedModel) -> ModelOutline | None:
    """The outline of a model that one device has prepared as a whole."""
    members = {"npu": FleetMember("npu", NOT_CALLED, IDENTITY, HangWatch())}
    survey = survey_unasked(imported, members, {"npu": DESCRIPTION}, ["npu"])
    plan = Plan((step_of_all(imported.model, "npu"),))
    refined = Refined(Partitioning(plan, None), tuple(survey.candidates), ())
    return ModelOutline.of(sketch_of(survey, refined, PlanChoice((), frozenset())))


def keep(directory: CacheDirectory, imported: ImportedModel) -> None:
    outline = outline_of(imported)
    assert outline is not None
    place(directory).keep(outline)


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
    keep(directory, imported)
    kept = place(directory).kept()
    assert kept is not None
    outline = kept.imported
    for own, other in zip(border(imported).values(), border(outline).values(), strict=True):
        assert own == other
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
    operands, names = imported.model.main.operands, imported.operand_names
    tensors = (*imported.inputs, *imported.outputs)
    return {t.name: (replace(t, operand=0), operands[t.operand], names[t.operand]) for t in tensors}


def test_of_a_model_whose_outputs_follow_from_open_inputs_by_its_operations_there_is_none() -> None:
    assert outline_of(import_model(onnx_content("rows"))) is None


def test_an_outline_is_found_by_all_that_a_plan_follows_from(directory: CacheDirectory) -> None:
    keep(directory, whole(2))
    others = [
        place(directory.of_variant("other")),
        place(directory, limits=replace(DEFAULT_LIMITS, nodes=7)),
        place(directory, options=Options(priority=Priority.LOW)),
        place(directory, identity=replace(IDENTITY, version="npu-2")),
        place(directory, identity=replace(IDENTITY, capabilities=Picky("npu", ratio=0.7).capabilities)),
        place(directory, description=replace(DESCRIPTION, imports=frozenset({"ashmem"}))),
        place(directory, calibration=CALIBRATION),
    ]
    assert [other.kept() for other in others] == [None] * len(others)
    assert place(directory, options=Options(deadline_ns=7)).kept() is not None


def test_what_a_network_costs_today_does_not_matter(directory: CacheDirectory) -> None:
    def far(hop_ns: float) -> OutlinePlace:
        return place(directory, description=replace(DESCRIPTION, transfer_costs=TransferCosts(hop_ns, is_wire=True)))

    outline = outline_of(whole(2))
    assert outline is not None
    far(1e6).keep(outline)
    assert far(2e6).kept() is not None


@pytest.mark.parametrize("length", [0, 31, 32, 40, 100])
def test_a_damaged_outline_is_none(directory: CacheDirectory, length: int) -> None:
    keep(directory, whole(2))
    (file,) = directory.path.iterdir()
    content = file.read_bytes()
    file.write_bytes(content[:length])
    assert place(directory).kept() is None
    file.write_bytes(content[:length] + b"?" + content[length + 1 :])
    assert place(directory).kept() is None
    file.write_bytes(content)
    assert place(directory).kept() is not None


def test_a_pipe_in_place_of_an_outline_is_not_waited_for_and_replaced(directory: CacheDirectory) -> None:
    imported = whole(2)
    keep(directory, imported)
    (file,) = directory.path.iterdir()
    for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero")):
        file.unlink()
        make(file)
        assert place(directory).kept() is None
        keep(directory, imported)
        assert place(directory).kept() is not None


def test_a_directory_that_cannot_be_made_keeps_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    directory = CacheDirectory(tmp_path / "file" / "cache", bytes(32))
    keep(directory, whole(2))
    assert place(directory).kept() is None


def test_tensors_of_other_elements_than_numpys_are_as_they_were(directory: CacheDirectory) -> None:
    imported = whole(2)
    text = replace(imported.inputs[0], element_type=np.dtype(object), kind="tensor of strings")
    keep(directory, replace(imported, inputs=(text,)))
    outline = place(directory).kept()
    assert outline is not None
    assert outline.imported.inputs[0].element_type == np.dtype(object)


def test_an_outline_that_cannot_be_kept_leaves_nothing(directory: CacheDirectory) -> None:
    keep(directory, whole(2))
    (file,) = directory.path.iterdir()
    file.unlink()
    file.mkdir()
    keep(directory, whole(2))
    assert list(directory.path.iterdir()) == [file]
    assert place(directory).kept() is None
