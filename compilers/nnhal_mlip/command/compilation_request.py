"""What a user wants compiled, and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nnhal_mlip.command.sharing import SharingChoices
from nnhal_mlip.flow.files.options import MlipTargetOptions, parse_options
from nnhal_mlip.timing.profile import TimingProfile


@dataclass(frozen=True, slots=True)
class CompilationRequest:
    """What a user wants."""

    model: Path
    target: MlipTargetOptions
    profile: TimingProfile
    sharing: SharingChoices = field(default_factory=SharingChoices)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    calibration: tuple[Path, ...] = ()
    """Files and directories with samples of the inputs."""


def target_options(
    mattr: str, mcpu: str, num_tiles: int | None, quantize: str | None, wb_pin_ocm: bool
) -> MlipTargetOptions:
    """Return what the public flow's words and the options beside them say. Raises ValueError that lists the known."""
    words = [mattr]
    if quantize is not None:
        words.append(f"-quantize={quantize}")
    if wb_pin_ocm:
        words.append("-wb_pin_ocm=1")
    return parse_options(" ".join(words), mcpu, num_tiles)
