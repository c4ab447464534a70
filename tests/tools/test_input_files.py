from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnhal_tools.input_files import read_inputs, read_samples


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    for number in (1, 2):
        np.save(tmp_path / f"{number}.npy", np.full(2, number))
    np.savez(tmp_path / "both.npz", x=np.zeros(1), y=np.ones(1))
    (tmp_path / "text.npy").write_text("no array")
    return {path.stem: str(path) for path in tmp_path.iterdir()}


def test_a_file_is_the_only_input_or_the_one_that_is_named(files: dict[str, str]) -> None:
    assert read_inputs([files["1"]], ["x"])["x"].tolist() == [1, 1]
    found = read_inputs([f"y={files['1']}", f"a=b={files['2']}"], ["y", "a=b"])
    assert {name: array.tolist() for name, array in found.items()} == {"y": [1, 1], "a=b": [2, 2]}
    assert read_inputs([files["both"]], ["x", "y"]).keys() == {"x", "y"}
    assert read_inputs([files["1"], files["2"]], ["x"])["x"].tolist() == [2, 2]


def test_an_input_that_comes_again_begins_the_next_sample(files: dict[str, str]) -> None:
    found = read_samples([f"x={files['1']}", f"y={files['1']}", f"x={files['2']}", files["both"]], ["x", "y"])
    assert [sorted(sample) for sample in found] == [["x", "y"], ["x"], ["x", "y"]]
    assert [sample["x"].tolist() for sample in found] == [[1, 1], [2, 2], [0]]
    assert read_samples([], ["x"]) == []


def test_mistakes_say_what_was_expected(files: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"expected arrays in .npy or .npz, as numpy saves it"):
        read_inputs([files["text"]], ["x"])
    with pytest.raises(ValueError, match=r"the model has inputs \['x', 'y'\]: use NAME=FILE"):
        read_inputs([files["1"]], ["x", "y"])
