"""Which models lie in the repositories, and what of them is to be loaded."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nnhal.inference import model_config_pb2 as wire
from nnhal_hosting.logs import get_logger
from nnhal_service.repository.config_file import CUSTOM_FOLDER, config_from_json, read_config
from nnhal_service.repository.names import is_file_name
from nnhal_service.repository.source import FolderSource, ModelSource
from nnhal_service.repository.versions import chosen_versions
from nnhal_service.repository.warmup import WARMUP_FOLDER
from nnhal_service.serving.errors import ErrorKind, ServingError

_log = get_logger(__name__)
_SHARED = ("", CUSTOM_FOLDER, WARMUP_FOLDER)
"""The folders whose files count for all versions."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be loaded of a model: its versions, each with what is different once it has changed."""

    source: ModelSource
    config: wire.ModelConfig
    versions: dict[int, object]


def model_names(paths: Sequence[Path]) -> list[str]:
    """The models in the repositories: each folder is one. Raises INTERNAL where one cannot be read."""
    try:
        return sorted({path.name for root in paths for path in root.iterdir() if _is_model(root, path.name)})
    except OSError as error:
        _log.error("a model repository cannot be read", reason=str(error))
        raise ServingError(ErrorKind.INTERNAL, f"a model repository cannot be read: {error.strerror}") from error


def sources(paths: Sequence[Path], name: str) -> list[FolderSource]:
    """The folders of a model, one where all is well."""
    return [FolderSource(root, name) for root in paths if _is_model(root, name)]


def the_source(paths: Sequence[Path], name: str) -> FolderSource:
    """The folder of a model. Raises NOT_FOUND where there is none, INVALID_ARGUMENT where there are several."""
    found = sources(paths, name)
    if not found:
        raise ServingError(ErrorKind.NOT_FOUND, f"failed to load '{name}': no model repository has it")
    if len(found) > 1:
        raise ServingError(
            ErrorKind.INVALID_ARGUMENT, f"{len(found)} repositories have a model of this name, expected one"
        )
    return found[0]


def wanted_of(source: ModelSource, name: str, config: str | None, config_name: str) -> Wanted:
    """What a model's configuration asks for; ``config`` is that of a request, in JSON. Raises ServingError."""
    found = read_config(source, name, config_name) if config is None else config_from_json(config, name)
    shared = (found.SerializeToString(deterministic=True), *(source.fingerprint(folder) for folder in _SHARED))
    versions = chosen_versions(source.versions(), found.version_policy)
    return Wanted(source, found, {v: (shared, source.fingerprint(str(v))) for v in versions})


def fingerprint_of(found: Sequence[ModelSource]) -> object:
    """What is different once anything of a model has changed."""
    try:
        return [
            [(folder, source.fingerprint(folder)) for folder in (*_SHARED, *map(str, source.versions()))]
            for source in found
        ]
    except ServingError as error:
        return error.message


def _is_model(root: Path, name: str) -> bool:
    return is_file_name(name) and os.path.isdir(root / name)  # noqa: PTH112 - that of Path raises where it may not look
