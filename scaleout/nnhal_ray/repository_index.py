"""The index of the repository if hosts have different models loaded."""

from __future__ import annotations

from collections.abc import Iterable

from nnhal.inference.grpc_service_pb2 import RepositoryIndexResponse

_READY = "READY"


def joined_index(answers: Iterable[bytes]) -> RepositoryIndexResponse:
    """One index of those of all hosts: a version is ready if it is on one of them."""
    rows: dict[tuple[str, str], RepositoryIndexResponse.ModelIndex] = {}
    for answer in answers:
        for row in RepositoryIndexResponse.FromString(answer).models:
            key = row.name, row.version
            if key not in rows or row.state == _READY:
                rows[key] = row
    loaded = {name for name, version in rows if version}
    return RepositoryIndexResponse(models=[row for key, row in sorted(rows.items()) if key[1] or key[0] not in loaded])


def index_as_json(index: RepositoryIndexResponse) -> list[dict[str, str]]:
    """An index as the protocol writes it in JSON."""
    return [
        {key: value for key in ("name", "version", "state", "reason") if (value := str(getattr(row, key)))}
        for row in index.models
    ]
