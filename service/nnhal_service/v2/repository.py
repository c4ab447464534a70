"""The repository of models behind the interface of the V2 servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from nnhal.inference import grpc_service_pb2 as wire
from nnhal.inference.model_config_pb2 import ModelConfig
from nnhal_service.repository import Lease, ModelIndex, Repository
from nnhal_service.serving import ServedModel
from nnhal_service.serving.errors import ErrorKind, ServingError, draining
from nnhal_service.serving.history.statistics import DurationStatistics, ModelStatistics
from nnhal_service.v2.backend import IndexEntry, ModelDescription, RepositoryParameter

Duration = wire.StatisticDuration
_CONFIG = "config"


class ServedRepository:
    """The ModelRepository over a repository of served models."""

    def __init__(self, repository: Repository[ServedModel], collect: Callable[[], None] = lambda: None) -> None:
        """``collect`` is called before statistics are read, to have other processes add what they have counted."""
        self._repository = repository
        self._collect = collect
        self._drains = False
        self._has_failed = False
        self.model: Callable[[str, str], Lease[ServedModel]] = repository.model

    def drain(self, drain: bool) -> None:
        """Hand out no models and report that the server is not ready, or undo that."""
        self._drains = drain
        if drain:
            self.model = _refuse
        else:
            self.model = self._repository.model

    def fail(self) -> None:
        """Be not ready from now on: the process is to be started again."""
        self._has_failed = True

    def ready(self) -> bool:
        return self._repository.ready and not self._drains and not self._has_failed

    def is_ready(self, name: str, version: str) -> bool:
        return self._repository.is_ready(name, version) and not self._drains and not self._has_failed

    def description(self, name: str, version: str) -> ModelDescription:
        with self._repository.model(name, version) as lease:
            versions = (lease.version,) if version else tuple(self._repository.versions(name))
            return ModelDescription(name, versions, lease.config.platform, lease.model.inputs, lease.model.outputs)

    def config(self, name: str, version: str) -> ModelConfig:
        with self._repository.model(name, version) as lease:
            return lease.config

    def statistics(self, name: str, version: str) -> Sequence[wire.ModelStatistics]:
        self._collect()
        if name:
            # Without a version that is ready, the lease of "" raises the error that says why.
            versions = [version] if version else self._repository.versions(name) or [""]
            wanted = [(name, number) for number in versions]
        else:
            wanted = [(row.name, row.version) for row in self._repository.index(ready=True)]
        found = []
        for model_name, number in wanted:
            with self._repository.model(model_name, number) as lease:
                found.append(_statistics_to_wire(lease.name, lease.version, lease.model.statistics()))
        return found

    def index(self, ready_only: bool) -> Sequence[IndexEntry]:
        return _entries(self._repository.index(ready_only))

    def known(self, name: str) -> Sequence[IndexEntry]:
        return _entries(self._repository.known(name))

    def load(self, name: str, parameters: Mapping[str, RepositoryParameter]) -> None:
        config = parameters.get(_CONFIG)
        files = {key: value for key, value in parameters.items() if key != _CONFIG and isinstance(value, bytes)}
        if config is not None and not isinstance(config, str):
            raise ServingError(ErrorKind.INVALID_ARGUMENT, f"parameter '{_CONFIG}' of loading: expected a string")
        self._repository.load(name, config, files)

    def unload(self, name: str, unload_dependents: bool) -> None:
        self._repository.unload(name, unload_dependents)


def _refuse(*_: str) -> NoReturn:
    raise draining()


def _entries(rows: Sequence[ModelIndex]) -> list[IndexEntry]:
    return [IndexEntry(row.name, row.version, row.state.value, row.reason) for row in rows]


def _statistics_to_wire(name: str, version: str, statistics: ModelStatistics) -> wire.ModelStatistics:
    return wire.ModelStatistics(
        name=name,
        version=version,
        last_inference=statistics.last_inference_ms,
        inference_count=statistics.inference_count,
        execution_count=statistics.execution_count,
        inference_stats=wire.InferStatistics(
            success=_duration(statistics.success),
            fail=_duration(statistics.fail),
            queue=_duration(statistics.queue),
            compute_input=_duration(statistics.compute_input),
            compute_infer=_duration(statistics.compute_infer),
            compute_output=_duration(statistics.compute_output),
            cache_hit=Duration(),
            cache_miss=Duration(),
        ),
        batch_stats=[
            wire.InferBatchStatistics(
                batch_size=size,
                compute_input=_duration(batch.compute_input),
                compute_infer=_duration(batch.compute_infer),
                compute_output=_duration(batch.compute_output),
            )
            for size, batch in statistics.batches.items()
        ],
    )


def _duration(duration: DurationStatistics) -> Duration:
    return Duration(count=duration.count, ns=duration.ns)
