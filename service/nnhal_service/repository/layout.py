"""The models that lie in the repositories' folders, and which of their versions are to be loaded."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nnhal.inference import model_config_pb2 as wire
from nnhal_hosting.logs import get_logger
from nnhal_service.repository.config_file import CUSTOM_FOLDER, config_from_json, read_config
from nnhal_service.repository.names import is_file_name
from nnhal_service.repository.sequences import STATE_FOLDER
from nnhal_service.repository.source import FolderSource, ModelSource
from nnhal_service.repository.warmup import WARMUP_FOLDER
from nnhal_service.serving.errors import ErrorKind, ServingError

_log = get_logger(__name__)
_SHARED = ("", CUSTOM_FOLDER, WARMUP_FOLDER, STATE_FOLDER)
"""The folders whose files belong to all versions."""


@dataclass(frozen=True, slots=True)
class VersionsToLoad:
    """The versions of a model that are to be loaded, each with a fingerprint that changes when its files do."""

    source: ModelSource
    config: wire.ModelConfig
    versions: dict[int, object]


def model_names(paths: Sequence[Path]) -> list[str]:
    """List the models in the repositories: each folder is one. Raises INTERNAL if a repository cannot be read."""
    try:
        return sorted({path.name for root in paths for path in root.iterdir() if _is_model(root, path.name)})
    except OSError as error:
        _log.error("a model repository cannot be read", reason=str(error))
        raise ServingError(ErrorKind.INTERNAL, f"a model repository cannot be read: {error.strerror}") from error


def sources(paths: Sequence[Path], name: str) -> list[FolderSource]:
    """Return the folders of a model in all repositories; more than one is an error that ``the_source`` raises."""
    return [FolderSource(root, name) for root in paths if _is_model(root, name)]


def the_source(paths: Sequence[Path], name: str) -> FolderSource:
    """Return the folder of a model. Raises NOT_FOUND if none has it, INVALID_ARGUMENT if several have it."""
    found = sources(paths, name)
    if not found:
        raise ServingError(ErrorKind.NOT_FOUND, f"failed to load '{name}': no model repository has it")
    if len(found) > 1:
        raise ServingError(
            ErrorKind.INVALID_ARGUMENT, f"{len(found)} repositories have a model of this name, expected one"
        )
    return found[0]


def versions_to_load(source: ModelSource, name: str, config: str | None, config_name: str) -> VersionsToLoad:
    """Choose versions by a model's configuration; ``config`` is that of a request, in JSON. Raises ServingError."""
    found = read_config(source, name, config_name) if config is None else config_from_json(config, name)
    shared = (found.SerializeToString(deterministic=True), *(source.fingerprint(folder) for folder in _SHARED))
    versions = chosen_versions(source.versions(), found.version_policy)
    return VersionsToLoad(source, found, {v: (shared, source.fingerprint(str(v))) for v in versions})


def fingerprint_of(found: Sequence[ModelSource]) -> object:
    """Return what changes when any file of a model does."""
    try:
        return [
            [(folder, source.fingerprint(folder)) for folder in (*_SHARED, *map(str, source.versions()))]
            for source in found
        ]
    except ServingError as error:
        return error.message


def _is_model(root: Path, name: str) -> bool:
    return is_file_name(name) and os.path.isdir(root / name)  # noqa: PTH112 - Path.is_dir raises if permission is denied


def chosen_versions(available: Sequence[int], policy: wire.ModelVersionPolicy) -> list[int]:
    """Choose among the available versions by a policy: by default the newest, and always at least one.

    Raises INVALID_ARGUMENT if the policy asks for a version that is not available, or for none.
    """
    kind = policy.WhichOneof("policy_choice")
    if not available:
        raise ServingError(ErrorKind.INVALID_ARGUMENT, "there is no version, expected a folder 1 (or 2, and so on)")
    if kind == "all":
        return sorted(available)
    if kind == "specific":
        wanted = sorted(set(policy.specific.versions))
        missing = [version for version in wanted if version not in available]
        if missing or not wanted:
            raise ServingError(
                ErrorKind.INVALID_ARGUMENT,
                f"version_policy asks for versions {missing or 'none'}, expected some of {sorted(available)}",
            )
        return wanted
    return sorted(available)[-(policy.latest.num_versions or 1) :]
