"""Arrays that the user gives for a model's inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from zipfile import ZipFile

from numpy.lib.format import write_array

from nnhal.arrays import Array
from nnhal.given_arrays import read_given_arrays
from nnhal.types.layout import describe
from nnhal_mlip.command.model_file import FlowPort

ModelSample = Mapping[str, Array]
"""An array for each input of the model, by the user's name."""


def read_sample(path: Path, ports: Sequence[FlowPort]) -> ModelSample:
    """Return the only sample of a file. Raises OSError and ValueError."""
    samples = read_samples([path], ports)
    if len(samples) != 1:
        raise ValueError(f"{path}: got {len(samples)} samples, expected one")
    return samples[0]


def read_samples(paths: Sequence[Path], ports: Sequence[FlowPort]) -> list[ModelSample]:
    """Return the samples of npz files, and of all npz files in directories, in the order of their names.

    A file has an array by the name of each input: one sample, or several along a first axis or along the batch.

    Raises:
        OSError: a file cannot be read.
        ValueError: a file is no npz, lacks an input, has others, or has arrays that are not those of the inputs.
    """
    found = [sample for path in _files(paths) for sample in _samples(path, ports)]
    if not found:
        raise ValueError(f"{', '.join(map(str, paths))}: got no sample, expected one at least")
    return found


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write an npz file. The names may be any, ``file`` too, which numpy takes for something else. Raises OSError."""
    with ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                write_array(entry, array, allow_pickle=False)


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            inside = sorted(path.glob("*.npz"))
            if not inside:
                raise ValueError(f"{path}: got no file NAME.npz in it, expected some")
            yield from inside
        else:
            yield path


def _samples(path: Path, ports: Sequence[FlowPort]) -> list[ModelSample]:
    arrays = _arrays(path)
    names = [port.name for port in ports]
    if arrays.keys() != set(names):
        raise ValueError(f"{path}: got arrays {_list(arrays)}, expected {_list(names)}: the model's inputs")
    split = {port.name: _split(path, port, arrays[port.name]) for port in ports}
    counts = {name: len(each) for name, each in split.items()}
    if len(set(counts.values())) > 1:
        counted = ", ".join(f"{count} of {name}" for name, count in counts.items())
        raise ValueError(f"{path}: got {counted} samples, expected as many of each input")
    return [{name: each[number] for name, each in split.items()} for number in range(next(iter(counts.values()), 0))]


def _arrays(path: Path) -> dict[str, Array]:
    found = read_given_arrays(path, "an npz file")
    if "" in found:
        raise ValueError(f"{path}: got one array without a name, expected an npz file: numpy.savez(file, NAME=array)")
    return found


def _split(path: Path, port: FlowPort, array: Array) -> list[Array]:
    if array.shape == port.shape:
        return [array]
    if array.shape[1:] == port.shape and array.ndim:
        return list(array)
    batch = port.shape[0] if port.shape else 0
    if batch and array.shape[1:] == port.shape[1:] and array.ndim and array.shape[0] % batch == 0:
        return list(array.reshape(-1, *port.shape))
    raise ValueError(
        f"{path}: input '{port.name}' has the shape {describe(array.shape)}, expected {describe(port.shape)}, or "
        "several of these along a first axis or along the batch"
    )


def _list(names: Sequence[str] | Mapping[str, Array]) -> str:
    return ", ".join(f"'{name}'" for name in sorted(names)) or "none"
