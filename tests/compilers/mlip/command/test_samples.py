from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal_mlip.command.model_file import FlowPort
from nnhal_mlip.command.samples import read_sample, read_samples, write_arrays

IMAGE = FlowPort("image", "image", (2, 3, 4), np.dtype(np.float32))
SIZE = FlowPort("size", "size", (2,), np.dtype(np.int32))


def saved(path: Path, **arrays: object) -> Path:
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return path


def numbers(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


@pytest.mark.parametrize("shape, count", [((2, 3, 4), 1), ((5, 2, 3, 4), 5), ((6, 3, 4), 3), ((1, 2, 3, 4), 1)])
def test_samples_lie_along_a_first_axis_or_along_the_batch(tmp_path: Path, shape: tuple[int, ...], count: int) -> None:
    values = numbers(*shape)
    found = read_samples([saved(tmp_path / "a.npz", image=values)], [IMAGE])
    assert len(found) == count
    np.testing.assert_array_equal(np.concatenate([sample["image"].reshape(-1) for sample in found]), values.reshape(-1))


def test_a_directory_has_samples_in_the_order_of_its_files(tmp_path: Path) -> None:
    for number in (2, 1):
        saved(tmp_path / f"{number}.npz", image=np.full((2, 3, 4), number, np.float32))
    found = read_samples([tmp_path], [IMAGE])
    assert [float(sample["image"][0, 0, 0]) for sample in found] == [1, 2]


def test_what_does_not_fit_is_refused_with_what_would(tmp_path: Path) -> None:
    file = tmp_path / "a.npz"
    with pytest.raises(ValueError, match=r"got arrays 'picture', expected 'image': the model's inputs"):
        read_samples([saved(file, picture=numbers(2, 3, 4))], [IMAGE])
    with pytest.raises(ValueError, match=r"input 'image' has the shape \[3, 3, 4\], expected \[2, 3, 4\], or several"):
        read_samples([saved(file, image=numbers(3, 3, 4))], [IMAGE])
    with pytest.raises(ValueError, match="got 2 of image, 1 of size samples, expected as many of each"):
        read_samples([saved(file, image=numbers(2, 2, 3, 4), size=numbers(2))], [IMAGE, SIZE])
    with pytest.raises(ValueError, match="got 2 samples, expected one"):
        read_sample(saved(file, image=numbers(2, 2, 3, 4)), [IMAGE])
    with pytest.raises(ValueError, match=r"got no file NAME\.npz"):
        (tmp_path / "empty").mkdir()
        read_samples([tmp_path / "empty"], [IMAGE])


def test_files_that_are_no_npz_are_refused(tmp_path: Path) -> None:
    alone, text, cut = tmp_path / "a.npy", tmp_path / "text.npz", tmp_path / "cut.npz"
    np.save(alone, numbers(2, 3, 4))
    text.write_text("image")
    cut.write_bytes(saved(tmp_path / "whole.npz", image=numbers(2, 3, 4)).read_bytes()[:100])
    with pytest.raises(ValueError, match="got one array without a name"):
        read_samples([alone], [IMAGE])
    for path in (text, cut):
        with pytest.raises(ValueError, match="expected an npz file, as numpy saves it"):
            read_samples([path], [IMAGE])


def test_arrays_of_any_names_are_written(tmp_path: Path) -> None:
    arrays: dict[str, Array] = {"file": numbers(2), "a/b:0": numbers(3, 1), "é|": np.zeros((), np.int8)}
    write_arrays(tmp_path / "o.npz", arrays)
    with np.load(tmp_path / "o.npz") as found:
        assert {name: found[name].shape for name in found.files} == {n: a.shape for n, a in arrays.items()}
