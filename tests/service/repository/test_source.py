from __future__ import annotations

import os
from pathlib import Path

import pytest

from nnhal_service.repository.names import is_file_name, is_version, require_model_name, version_of
from nnhal_service.repository.source import FolderSource, GivenSource
from nnhal_service.serving.errors import ErrorKind, ServingError
from tests.support.repositories import write


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "/etc", "a\0b", ".hidden", "x" * 256, "\ud800"])
def test_names_that_leave_their_folder_are_refused(name: str) -> None:
    assert not is_file_name(name)
    with pytest.raises(ServingError, match="expected 1 to 255 bytes") as caught:
        require_model_name(name)
    assert caught.value.kind == ErrorKind.INVALID_ARGUMENT


@pytest.mark.parametrize("name", ["resnet-50", "a..b", "modèle", "x" * 255])
def test_other_names_are_taken(name: str) -> None:
    assert require_model_name(name) == name


@pytest.mark.parametrize("text", ["0", "01", "-1", "1.0", "x", "²", "9" * 19])
def test_a_version_is_a_positive_number(text: str) -> None:
    assert not is_version(text)
    with pytest.raises(ServingError, match="expected a positive number"):
        version_of(text)


def test_no_version_is_the_newest() -> None:
    assert version_of("") is None
    assert version_of("12") == 12


def test_a_folder_has_versions_and_files(tmp_path: Path) -> None:
    write(
        tmp_path,
        "m",
        {"10/model.onnx": b"ten", "2/model.onnx": b"two", "03/x": b"", "docs/x": b"", "config.pbtxt": b""},
    )
    source = FolderSource(tmp_path, "m")
    assert source.versions() == [2, 10]
    assert source.files("") == ["config.pbtxt"]
    assert source.files("10") == ["model.onnx"]
    assert source.files("11") == []
    assert source.read("10/model.onnx") == b"ten"


def test_a_file_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    write(tmp_path, "m", {"1/model.onnx": b""})
    with pytest.raises(ServingError, match=r"there is no file '1/labels\.txt'") as caught:
        FolderSource(tmp_path, "m").read("1/labels.txt")
    assert caught.value.kind == ErrorKind.NOT_FOUND


def test_links_within_a_repository_are_followed(tmp_path: Path) -> None:
    folder = write(tmp_path, "m", {"data/blob": b"here"})
    (folder / "1").mkdir()
    (folder / "1/model.onnx").symlink_to("../data/blob")
    (folder / "2").symlink_to("1")
    source = FolderSource(tmp_path, "m")
    assert source.versions() == [1, 2]
    assert source.read("2/model.onnx") == b"here"


@pytest.mark.parametrize("link", ["1/model.onnx", "1"])
def test_links_out_of_a_repository_are_refused_without_saying_where_they_lead(tmp_path: Path, link: str) -> None:
    outside = write(tmp_path, "outside", {"model.onnx": b"secret"})
    folder = tmp_path / "repository" / "m"
    (folder / link).parent.mkdir(parents=True)
    (folder / link).symlink_to(outside if link == "1" else outside / "model.onnx")
    with pytest.raises(ServingError, match="leads out of the repository") as caught:
        FolderSource(tmp_path / "repository", "m").read("1/model.onnx")
    assert str(tmp_path) not in caught.value.message


def test_a_model_folder_that_is_a_link_out_is_refused(tmp_path: Path) -> None:
    outside = write(tmp_path, "outside", {"1/model.onnx": b"secret"})
    (tmp_path / "repository").mkdir()
    (tmp_path / "repository" / "m").symlink_to(outside)
    with pytest.raises(ServingError, match="leads out of the repository"):
        FolderSource(tmp_path / "repository", "m").versions()


def test_links_in_a_loop_are_an_error(tmp_path: Path) -> None:
    folder = write(tmp_path, "m", {"1/other": b""})
    (folder / "1/model.onnx").symlink_to("model.onnx")
    with pytest.raises(ServingError, match="cannot be read"):
        FolderSource(tmp_path, "m").read("1/model.onnx")


def test_a_pipe_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    folder = write(tmp_path, "m", {"1/other": b""})
    os.mkfifo(folder / "1/model.onnx")
    with pytest.raises(ServingError, match=r"^'1/model\.onnx': got a pipe, expected a regular file"):
        FolderSource(tmp_path, "m").read("1/model.onnx")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read_is_an_error_without_its_path(tmp_path: Path) -> None:
    folder = write(tmp_path, "m", {"1/model.onnx": b""})
    folder.chmod(0)
    try:
        with pytest.raises(ServingError, match="cannot be read: Permission denied") as caught:
            FolderSource(tmp_path, "m").versions()
        assert str(tmp_path) not in caught.value.message
    finally:
        folder.chmod(0o700)


def test_a_fingerprint_is_another_once_a_file_has_changed(tmp_path: Path) -> None:
    source = FolderSource(tmp_path, "m")
    write(tmp_path, "m", {"1/model.onnx": b"one"})
    first = source.fingerprint("1")
    assert first == source.fingerprint("1")
    write(tmp_path, "m", {"1/model.onnx": b"other"})
    second = source.fingerprint("1")
    write(tmp_path, "m", {"1/weights": b""})
    assert len({first, second, source.fingerprint("1")}) == 3


def test_given_files_are_all_there_are() -> None:
    source = GivenSource({"1/model.onnx": b"one", "3/model.onnx": b"three", "labels.txt": b"a"})
    assert source.versions() == [1, 3]
    assert source.files("3") == ["model.onnx"]
    assert source.files("") == ["labels.txt"]
    assert source.read("3/model.onnx") == b"three"
    with pytest.raises(ServingError, match=r"there is no file '2/model\.onnx'"):
        source.read("2/model.onnx")


@pytest.mark.parametrize("name", ["../model.onnx", "1/../../x", "1/2/model.onnx", "/1/model.onnx", "1/", ""])
def test_given_files_stay_in_the_model_s_folder(name: str) -> None:
    with pytest.raises(ServingError, match="expected VERSION/NAME"):
        GivenSource({name: b""})
