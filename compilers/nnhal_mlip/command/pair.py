"""The two programs behind the public flow, as its proposal for TVM calls them.

One compiles a pair of a nodes file and a constants file into a binary, the other runs a binary on files of its inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from nnhal.arrays import Array
from nnhal.given_arrays import read_given_arrays
from nnhal.given_files import MOST_MODEL_BYTES, parse_json, read_given_file
from nnhal_mlip.compiler.compiler import CompiledSubgraph, compile_files
from nnhal_mlip.compiler.compiler_options import MlipCompilerOptions
from nnhal_mlip.flow.files.options import parse_options
from nnhal_mlip.flow.files.subgraph_files import read_files
from nnhal_mlip.program.program import MAX_TILES, OCM_BYTES, ProgramPort
from nnhal_mlip.simulator.memory import ELEMENT_DTYPES
from nnhal_mlip.simulator.simulator import SimulatedRun, Simulator
from nnhal_mlip.timing.profile import TimingProfile

_MOST_RANGES_BYTES = 64 << 20


def compile_pair(
    nodes: Path,
    constants: Path,
    profile: TimingProfile,
    *,
    arch: str = "MLIP",
    quantize: str = "float16",
    num_tiles: int = MAX_TILES,
    ocm_base: str = "0x0",
    ocm_size: str = hex(OCM_BYTES),
    dram_addr_relocatable: int = 1,
    wb_pin_ocm: bool = False,
    ranges: Path | None = None,
) -> CompiledSubgraph:
    """Compile a pair of files.

    ``ranges`` is a calibration.json, which int8 needs if the files have no scales.

    Raises:
        OSError: a file cannot be read.
        NnhalError, ValueError: a file or an option is not what it has to be, or something does not fit.
    """
    if dram_addr_relocatable != 1:
        raise ValueError(
            f"option dram_addr_relocatable: got {dram_addr_relocatable}, expected 1: a binary has offsets into "
            "DRAM, which the driver places"
        )
    given = parse_options(f"arch={arch} quantize={quantize} num_tiles={num_tiles}")
    options = MlipCompilerOptions(
        quantize="int8" if given.quantize == "int8" else "fp16",
        num_tiles=given.num_tiles,
        wb_pin_ocm=wb_pin_ocm,
        ranges=_ranges(ranges) if ranges else {},
        profile=profile,
        ocm_base=_number("ocm_base", ocm_base),
        ocm_size=_number("ocm_size", ocm_size),
    )
    return compile_files(read_files(nodes, constants), options)


def run_binary(binary: Path, inputs: Sequence[Path], profile: TimingProfile) -> tuple[Simulator, SimulatedRun]:
    """Run a binary. A file holds an input's bytes, in float32 or in the program's own type, or is an npy file.

    Raises as ``compile_pair``.
    """
    simulator = Simulator(read_given_file(binary, MOST_MODEL_BYTES, "a binary"), profile)
    ports = simulator.program.inputs
    if len(inputs) != len(ports):
        expected = ", ".join(f"{port.name} {list(port.shape)}" for port in ports)
        raise ValueError(f"{binary}: got {len(inputs)} files of inputs, expected {len(ports)}, one each of {expected}")
    return simulator, simulator.run([_input(path, port) for path, port in zip(inputs, ports, strict=True)])


def output_bytes(run: SimulatedRun) -> bytes:
    """Return the outputs, one behind the other, as the driver returns them."""
    return b"".join(np.ascontiguousarray(each).tobytes() for each in run.outputs)


def _input(path: Path, port: ProgramPort) -> Array:
    if path.suffix == ".npy":
        return read_given_arrays(path, "an array in .npy")[""]
    content = read_given_file(path, MOST_MODEL_BYTES, "an input")
    own = ELEMENT_DTYPES[port.type]
    count = int(np.prod(port.shape))
    for dtype in (np.dtype(np.float32), own):
        if len(content) == count * dtype.itemsize:
            return np.frombuffer(content, dtype).reshape(port.shape)
    raise ValueError(
        f"{path}: got {len(content)} bytes for input {port.name}, expected {count} numbers of shape {list(port.shape)} "
        f"in float32 or {own.name}"
    )


def _ranges(path: Path) -> Mapping[str, tuple[float, float]]:
    try:
        found = parse_json(read_given_file(path, _MOST_RANGES_BYTES, "ranges"))["ranges"]
        return {name: (float(low), float(high)) for name, (low, high) in found.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: expected a calibration.json of 'nnhal mlip compile': {error}") from error


def _number(name: str, text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise ValueError(f"option {name}: got {text!r}, expected a number such as 0x100000") from None
