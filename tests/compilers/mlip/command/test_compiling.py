from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from nnhal_mlip.command.compiling import CompilationRequest, compile_model, target_options
from nnhal_mlip.command.folder import CompiledFolder
from nnhal_mlip.command.plan_file import MlipPlan, read_plan
from nnhal_mlip.command.rendering import compilation_parts
from nnhal_mlip.compiler.errors import MisfitOfTilesError
from nnhal_mlip.flow.files.subgraph_files import read_files
from nnhal_mlip.timing.profile import read_profile
from tests.support.consoles import printed_parts
from tests.support.mlip_onnx import OnnxNetwork, write_digits
from tests.support.mlip_tflite import write_tflite_convolution


def request(model: Path, *, tiles: int = 2, quantize: str | None = None, pinned: bool = False) -> CompilationRequest:
    return CompilationRequest(model, target_options("", "cn10ka", tiles, quantize, pinned), read_profile())


def quantised(model: Path, images: Path, folder: Path) -> MlipPlan:
    return compile_model(replace(request(model, quantize="int8"), calibration=(images,)), folder)


def test_a_folder_has_what_the_plan_names(compiled_digits: CompiledFolder) -> None:
    plan, folder = compiled_digits.plan, compiled_digits.path
    assert {path.name for path in folder.iterdir()} == {"plan.json", *(each.file for each in plan.files)}
    (subgraph,) = plan.subgraphs
    files = read_files(folder / subgraph.nodes.file, folder / subgraph.constants.file)
    assert [kernel.layer for kernel in files.nodes.kernels] == [layer.kind for layer in subgraph.layers]
    assert [step.subgraph or step.host for step in plan.steps] == ["tvmgen_mrvl_main_0", "scores"]
    assert subgraph.cycles > sum(layer.cycles for layer in subgraph.layers) * 0.5


def test_two_compilations_give_the_same_files(compiled_digits: CompiledFolder, digits: Path, tmp_path: Path) -> None:
    compile_model(request(digits), tmp_path / "again")
    for path in compiled_digits.path.iterdir():
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes()


def test_int8_without_samples_is_refused_and_nothing_is_written(digits: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"int8 needs the ranges.*expected --calibrate FILE\.npz with arrays for 'image'"
    ):
        compile_model(request(digits, quantize="int8"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_ranges_of_the_samples_are_kept(digits: Path, images: Path, tmp_path: Path) -> None:
    quantised(digits, images, tmp_path)
    ranges = json.loads((tmp_path / "calibration.json").read_text())
    assert ranges["samples"] == 3 and set(ranges["ranges"]) >= {"image", "classifier:0"}


def test_an_8_bit_model_brings_its_own_scales(tmp_path: Path) -> None:
    path, _, _ = write_tflite_convolution(tmp_path / "model.tflite", "int8")
    plan = compile_model(request(path), tmp_path / "out")
    assert [subgraph.quantize for subgraph in plan.subgraphs] == ["int8"]
    assert plan.calibration is None


def test_what_an_earlier_compilation_left_is_removed(digits: Path, images: Path, tmp_path: Path) -> None:
    quantised(digits, images, tmp_path)
    compile_model(request(digits), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "plan.json",
        *(each.file for each in read_plan(tmp_path).files),
    }


def test_a_model_in_the_folder_itself_can_be_compiled(tmp_path: Path) -> None:
    model = write_digits(tmp_path / "model.onnx")
    compile_model(request(model), tmp_path)
    compile_model(request(model, tiles=1), tmp_path)
    assert read_plan(tmp_path).subgraphs[0].tiles == 1


def test_what_does_not_fit_is_told_with_what_would(tmp_path: Path) -> None:
    net = OnnxNetwork()
    data = net.dense(net.dense("x", 2048, 1024, "wide"), 1024, 2048, "narrow")
    model = net.write(tmp_path / "dense.onnx", {"x": (1, 1024)}, [data])
    with pytest.raises(MisfitOfTilesError, match=r"bytes of each tile's memory.*it would fit with") as caught:
        compile_model(request(model, tiles=1, pinned=True), tmp_path / "out")
    assert caught.value.wanted > caught.value.available
    assert not (tmp_path / "out").exists()


def test_the_tables_name_layers_and_tiles(compiled_digits: CompiledFolder) -> None:
    text = printed_parts(compilation_parts(compiled_digits.plan, compiled_digits.path))
    assert "1 binary for at most 2 tiles; 1 operator on the host: scores" in text
    assert "conv1 + relu1" in text and "modelled" in text
