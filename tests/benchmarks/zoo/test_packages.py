"""Model files of the corpus."""

from __future__ import annotations

from pathlib import Path

from benchmarks.zoo.packages import distinct, found


def test_files_are_found_below_a_folder_and_named_by_their_package(tmp_path: Path) -> None:
    for name, content in (("ocr/models/det.onnx", b"1"), ("ocr/README", b"2"), ("voice/vad.tflite", b"3")):
        path = tmp_path / "packages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    assert [file.name for file in found(tmp_path / "packages")] == ["ocr/det.onnx", "voice/vad.tflite"]
    assert [file.name for file in found(tmp_path / "packages" / "voice", "mine")] == ["mine/vad.tflite"]


def test_a_file_that_two_packages_have_counts_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "vad.onnx").write_bytes(b"the same")
    assert [file.name for file in distinct(list(found(tmp_path)))] == ["a/vad.onnx"]
