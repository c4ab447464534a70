"""The files that a model names beside itself are opened by who loads it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nnhal.external_data import opened_external_data
from tests.support.external_data import LOCATION, SIDE, contents, elsewhere, layers, matrices, written
from tests.support.onnx_models import onnx_model


def names(path: Path) -> list[str]:
    with opened_external_data(path) as files:
        return list(files)


def with_location(folder: Path, location: str) -> Path:
    model = onnx_model([], {"x": [1, SIDE]}, [])
    model.graph.initializer.append(elsewhere("w", matrices()[0], 0, location))
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_the_file_of_several_tensors_is_opened_once(tmp_path: Path) -> None:
    with opened_external_data(written(tmp_path)) as files:
        assert [file.read() for file in files.values()] == [contents()]
        assert list(files) == [LOCATION]


@pytest.mark.parametrize("length", [1, 127, 128, 200])
def test_names_of_all_lengths_are_found(tmp_path: Path, length: int) -> None:
    name = "é" * (length // 2) + "w" * (length % 2)
    (tmp_path / name).write_bytes(b"w")
    assert names(with_location(tmp_path, name)) == [name]


def test_files_below_the_folder_of_the_model_are_opened(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "w").write_bytes(b"w")
    assert names(with_location(tmp_path, "parts/w")) == ["parts/w"]


@pytest.mark.parametrize("location", ["../secret", "parts/../../secret", "{folder}/secret", "missing", "a\0b"])
def test_other_files_are_not_opened(tmp_path: Path, location: str) -> None:
    (tmp_path / "secret").write_bytes(b"s")
    (tmp_path / "models").mkdir()
    assert names(with_location(tmp_path / "models", location.format(folder=tmp_path))) == []


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "w")
    with pytest.raises(ValueError, match="got a pipe, expected a regular file: values of a model's tensors"):
        names(with_location(tmp_path, "w"))


def test_a_model_without_other_files_has_none(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"")
    assert names(path) == []
    model = layers()
    del model.graph.initializer[:]
    path.write_bytes(model.SerializeToString())
    assert names(path) == []
