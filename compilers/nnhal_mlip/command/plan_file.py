"""``plan.json``: what a folder of a compiled network holds, and how to run it."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nnhal.given_files import MOST_MODEL_BYTES, open_given_file, read_given_file
from nnhal_mlip.command.sharing import SharingChoices
from nnhal_mlip.timing.profile import TimingProfile

PLAN_FILE = "plan.json"
_MOST_BYTES = 64 << 20
FILE_NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$"


class PlanFileError(ValueError):
    """A folder holds no network that was compiled into it, or not as it was written."""


class PlanPart(BaseModel):
    """A part of the plan: immutable, and without keys that nobody knows."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class PlannedFile(PlanPart):
    """A file of the folder."""

    file: str = Field(pattern=FILE_NAME)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


class PlannedTarget(PlanPart):
    """What was compiled for."""

    arch: str
    mcpu: str
    quantize: Literal["fp16", "int8"]
    num_tiles: int
    wb_pin_ocm: bool
    mode: Literal["sim", "hw"]


class PlannedPort(PlanPart):
    """An input or output of the user's model."""

    name: str
    shape: tuple[int, ...]
    type: str


class PlannedLayer(PlanPart):
    """A layer of a binary. Cycles are modelled."""

    name: str
    kind: str
    user_names: tuple[str, ...]
    split: Literal["rows", "channels"]
    tiles: int
    stripes: int
    spills: bool
    macs: int
    weight_bytes: int
    ddr_bytes: int
    pages: int
    """The pages of the tile that it touches the most of."""
    cycles: int


class PlannedSubgraph(PlanPart):
    """A binary, and what it was made of."""

    symbol: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    quantize: Literal["fp16", "int8"]
    tiles: int
    cycles: int
    """Modelled, of a run."""
    nodes: PlannedFile
    constants: PlannedFile
    binary: PlannedFile
    memory: PlannedFile
    layers: tuple[PlannedLayer, ...]


class PlannedStep(PlanPart):
    """A subgraph or an operator of the host, in the order in which they run."""

    subgraph: str = ""
    """Its symbol."""
    host: str = ""
    """The user's name of the node."""
    output: str = ""
    """The value that an operator of the host computes."""
    host_ns: float = 0.0
    """Modelled, of an operator of the host."""


class MlipPlan(PlanPart):
    """The whole file."""

    schema_version: Literal[2] = Field(alias="schema")
    model_name: str
    """The name of the file that the user gave."""
    model: PlannedFile
    shapes: dict[str, tuple[int, ...]]
    """Those that the user has fixed."""
    sharing: SharingChoices
    target: PlannedTarget
    profile: dict[str, int | str]
    inputs: tuple[PlannedPort, ...]
    outputs: tuple[PlannedPort, ...]
    steps: tuple[PlannedStep, ...]
    subgraphs: tuple[PlannedSubgraph, ...]
    calibration: PlannedFile | None = None

    @property
    def timing(self) -> TimingProfile:
        return TimingProfile(**self.profile)  # type: ignore[arg-type]

    @property
    def files(self) -> tuple[PlannedFile, ...]:
        """All files beside this one."""
        own = [self.model] if self.calibration is None else [self.model, self.calibration]
        for subgraph in self.subgraphs:
            own += [subgraph.nodes, subgraph.constants, subgraph.binary, subgraph.memory]
        return tuple(own)


def profile_figures(profile: TimingProfile) -> dict[str, int | str]:
    return asdict(profile)


def planned(folder: Path, name: str) -> PlannedFile:
    with open_given_file(folder / name, "a file of a compiled model") as file:
        return PlannedFile(file=name, sha256=hashlib.file_digest(file, "sha256").hexdigest())


def read_plan(folder: Path) -> MlipPlan:
    """Read the plan of a folder.

    Raises:
        OSError: it cannot be read.
        PlanFileError: it is no plan, or one of another version.
    """
    path = folder / PLAN_FILE
    try:
        plan = MlipPlan.model_validate_json(read_given_file(path, _MOST_BYTES, "a plan"))
        if not isinstance(plan.profile.get("name"), str):
            raise PlanFileError(f"{path}: profile has no name, expected one")
        plan.timing.nanoseconds(1)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "all of it"
        raise PlanFileError(f"{path}: {place}: {first['msg']}; expected a plan of 'nnhal mlip compile'") from error
    except (TypeError, ZeroDivisionError) as error:
        raise PlanFileError(f"{path}: profile: got other figures than this version knows: {error}") from error
    return plan


def read_checked(folder: Path, entry: PlannedFile) -> bytes:
    """Return what a file holds. Raises OSError, and PlanFileError if it has changed since it was written."""
    content = read_given_file(folder / entry.file, MOST_MODEL_BYTES, "a file of a compiled model")
    if hashlib.sha256(content).hexdigest() != entry.sha256:
        raise PlanFileError(f"{folder / entry.file}: has changed since it was compiled; compile the model again")
    return content
