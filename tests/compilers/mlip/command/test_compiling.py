from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from nnhal_mlip.command.compiling import CompilationRequest, CompiledNetwork, compile_network, target_options
from nnhal_mlip.command.rendering import compilation_parts
from nnhal_mlip.compiler.errors import MisfitOfTilesError
from nnhal_mlip.flow.files.subgraph_files import read_files
from nnhal_mlip.timing.profile import read_profile
from tests.support.consoles import printed_parts
from tests.support.mlip_onnx import OnnxNetwork
from tests.support.mlip_tflite import write_tflite_convolution


def request(model: Path, *, tiles: int = 2, quantize: str | None = None, pinned: bool = False) -> CompilationRequest:
    return CompilationRequest(model, target_options("", "cn10ka", tiles, quantize, pinned), read_profile())


def quantised(model: Path, images: Path) -> CompiledNetwork:
    return compile_network(replace(request(model, quantize="int8"), calibration=(images,)))


def test_a_folder_has_the_files_of_each_binary(compiled_digits: CompiledNetwork, tmp_path: Path) -> None:
    names = compiled_digits.write(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(names)
    (binary,) = compiled_digits.binaries
    files = read_files(*(tmp_path / f"{binary.symbol}-{kind}.json" for kind in ("nodes", "consts")))
    assert [kernel.layer for kernel in files.nodes.kernels] == [layer.kind for layer in binary.report.layers]
    assert [step.name for step in compiled_digits.host] == ["scores"]
    assert binary.compiled.cycles > sum(layer.cycles for layer in binary.report.layers) * 0.5


def test_two_compilations_give_the_same_files(compiled_digits: CompiledNetwork, digits: Path, tmp_path: Path) -> None:
    compiled_digits.write(tmp_path / "first")
    for name in compile_network(request(digits)).write(tmp_path / "again"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "first" / name).read_bytes()


def test_int8_without_samples_is_refused(digits: Path) -> None:
    with pytest.raises(
        ValueError, match=r"int8 needs the ranges.*expected --calibrate FILE\.npz with arrays for 'image'"
    ):
        compile_network(request(digits, quantize="int8"))


def test_the_ranges_of_the_samples_are_kept(digits: Path, images: Path, tmp_path: Path) -> None:
    quantised(digits, images).write(tmp_path)
    ranges = json.loads((tmp_path / "calibration.json").read_text())
    assert ranges["samples"] == 3 and set(ranges["ranges"]) >= {"image", "classifier:0"}


def test_an_8_bit_model_brings_its_own_scales(tmp_path: Path) -> None:
    path, _, _ = write_tflite_convolution(tmp_path / "model.tflite", "int8")
    network = compile_network(request(path))
    assert [binary.quantize for binary in network.binaries] == ["int8"]
    assert not network.ranges


def test_what_an_earlier_compilation_left_is_removed_and_nothing_else(
    compiled_digits: CompiledNetwork, digits: Path, images: Path, tmp_path: Path
) -> None:
    (tmp_path / "model.onnx").write_bytes(digits.read_bytes())
    quantised(digits, images).write(tmp_path)
    (tmp_path / "tvmgen_mrvl_main_1.bin").touch()
    names = compiled_digits.write(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"model.onnx", *names}


def test_what_does_not_fit_is_told_with_what_would(tmp_path: Path) -> None:
    net = OnnxNetwork()
    data = net.dense(net.dense("x", 2048, 1024, "wide"), 1024, 2048, "narrow")
    model = net.write(tmp_path / "dense.onnx", {"x": (1, 1024)}, [data])
    with pytest.raises(MisfitOfTilesError, match=r"bytes of each tile's memory.*it would fit with") as caught:
        compile_network(request(model, tiles=1, pinned=True))
    assert caught.value.wanted > caught.value.available


def test_the_tables_name_layers_and_tiles(compiled_digits: CompiledNetwork) -> None:
    text = printed_parts(compilation_parts(compiled_digits, Path("out"), ["a.bin"]))
    assert "1 binary for at most 2 tiles; 1 operator on the host: scores" in text
    assert "conv1 + relu1" in text and "modelled" in text
    assert "written to out: a.bin" in text
