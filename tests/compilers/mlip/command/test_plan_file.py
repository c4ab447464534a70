from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nnhal_mlip.command.folder import CompiledFolder, open_folder
from nnhal_mlip.command.plan_file import PlanFileError, read_checked, read_plan


def changed(folder: CompiledFolder, target: Path, **keys: Any) -> Path:
    text = json.loads((folder.path / "plan.json").read_text())
    (target / "plan.json").write_text(json.dumps({**text, **keys}))
    return target


def test_a_plan_is_read_as_it_was_written(compiled_digits: CompiledFolder) -> None:
    plan = read_plan(compiled_digits.path)
    assert plan == compiled_digits.plan
    assert plan.timing.name == "cn106"


@pytest.mark.parametrize(
    "keys, message",
    [
        ({"schema": 1}, r"plan\.json: schema: Input should be 2"),
        ({"colour": "blue"}, r"plan\.json: colour: Extra inputs are not permitted"),
        ({"steps": None}, r"plan\.json: steps: Input should be"),
        ({"profile": {"name": "mine", "clock_hz": 1}}, r"plan\.json: profile: got other figures than this version"),
        ({"model": {"file": "../model.onnx", "sha256": "0" * 64}}, r"plan\.json: model\.file: String should match"),
    ],
)
def test_what_is_no_plan_is_refused(
    keys: dict[str, Any], message: str, compiled_digits: CompiledFolder, tmp_path: Path
) -> None:
    with pytest.raises(PlanFileError, match=message):
        read_plan(changed(compiled_digits, tmp_path, **keys))


def test_files_that_have_changed_are_refused(compiled_digits: CompiledFolder, tmp_path: Path) -> None:
    entry = compiled_digits.plan.subgraphs[0].binary
    (tmp_path / entry.file).write_bytes(read_checked(compiled_digits.path, entry)[:-1] + b"?")
    with pytest.raises(PlanFileError, match=r"tvmgen_mrvl_main_0\.bin: has changed since it was compiled"):
        read_checked(tmp_path, entry)


def test_a_folder_without_a_plan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        PlanFileError, match="is no directory, expected one that 'nnhal mlip compile --out' has written"
    ):
        open_folder(tmp_path / "none")
    with pytest.raises(FileNotFoundError):
        open_folder(tmp_path)
