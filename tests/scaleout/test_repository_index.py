from __future__ import annotations

from nnhal.inference.grpc_service_pb2 import RepositoryIndexResponse
from nnhal_ray.repository_index import index_as_json, joined_index


def index(*rows: tuple[str, str, str]) -> bytes:
    models = [
        RepositoryIndexResponse.ModelIndex(name=name, version=version, state=state) for name, version, state in rows
    ]
    return RepositoryIndexResponse(models=models).SerializeToString()


def test_a_version_is_ready_if_one_host_has_it() -> None:
    hosts = index(("a", "1", "READY"), ("b", "", "")), index(("a", "1", "UNAVAILABLE"), ("b", "2", "READY"))
    assert index_as_json(joined_index(hosts)) == [
        {"name": "a", "version": "1", "state": "READY"},
        {"name": "b", "version": "2", "state": "READY"},
    ]
