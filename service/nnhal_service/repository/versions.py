"""Which versions of a model are served."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.inference import model_config_pb2 as wire
from nnhal_service.serving.errors import ErrorKind, ServingError


def chosen_versions(there: Sequence[int], policy: wire.ModelVersionPolicy) -> list[int]:
    """Those of the versions that are there that a policy wants: the newest where it says nothing, at least one.

    Raises INVALID_ARGUMENT where it wants one that is not there, or none.
    """
    kind = policy.WhichOneof("policy_choice")
    if not there:
        raise ServingError(ErrorKind.INVALID_ARGUMENT, "there is no version, expected a folder 1 (or 2, and so on)")
    if kind == "all":
        return sorted(there)
    if kind == "specific":
        wanted = sorted(set(policy.specific.versions))
        missing = [version for version in wanted if version not in there]
        if missing or not wanted:
            raise ServingError(
                ErrorKind.INVALID_ARGUMENT,
                f"version_policy asks for versions {missing or 'none'}, expected some of {sorted(there)}",
            )
        return wanted
    return sorted(there)[-(policy.latest.num_versions or 1) :]
