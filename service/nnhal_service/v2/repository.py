"""The repository as the fronts see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

from nnhal.inference import grpc_service_pb2 as wire
from nnhal.inference.model_config_pb2 import ModelConfig
from nnhal_service.repository import Lease, ModelIndex, Repository
from nnhal_service.serving import ServedModel
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.statistics import DurationStatistics, ModelStatistics
from nnhal_service.v2.backend import IndexEntry, ModelDescription, RepositoryParameter

Duration = wire.StatisticDuration
_CONFIG = "config"


class Held:
    """The model of a lease, which ends with the context."""

    __slots__ = ("_lease",)

    def __init__(self, lease: Lease[ServedModel]) -> None:
        self._lease = lease

    def __enter__(self) -> ServedModel:
        return self._lease.model

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lease.release()


@dataclass(frozen=True, slots=True)
class ServedRepository:
    """See backend.ModelRepository."""

    repository: Repository[ServedModel]

    def ready(self) -> bool:
        """See backend.ModelRepository."""
        return self.repository.ready

    def is_ready(self, name: str, version: str) -> bool:
        """See backend.ModelRepository."""
        return self.repository.is_ready(name, version)

    def model(self, name: str, version: str) -> Held:
        """See backend.ModelRepository."""
        return Held(self.repository.model(name, version))

    def description(self, name: str, version: str) -> ModelDescription:
        """See backend.ModelRepository."""
        with self.repository.model(name, version) as lease:
            versions = (lease.version,) if version else tuple(self.repository.versions(name))
            return ModelDescription(name, versions, lease.config.platform, lease.model.inputs, lease.model.outputs)

    def config(self, name: str, version: str) -> ModelConfig:
        """See backend.ModelRepository."""
        with self.repository.model(name, version) as lease:
            return lease.config

    def statistics(self, name: str, version: str) -> Sequence[wire.ModelStatistics]:
        """See backend.ModelRepository."""
        if name:
            versions = [version] if version else self.repository.versions(name) or [""]  # which says what is wrong
            wanted = [(name, number) for number in versions]
        else:
            wanted = [(row.name, row.version) for row in self.repository.index(ready=True)]
        found = []
        for model_name, number in wanted:
            with self.repository.model(model_name, number) as lease:
                found.append(_statistics_to_wire(lease.name, lease.version, lease.model.statistics()))
        return found

    def index(self, ready_only: bool) -> Sequence[IndexEntry]:
        """See backend.ModelRepository."""
        return _entries(self.repository.index(ready_only))

    def known(self, name: str) -> Sequence[IndexEntry]:
        """See backend.ModelRepository."""
        return _entries(self.repository.known(name))

    def load(self, name: str, parameters: Mapping[str, RepositoryParameter]) -> None:
        """See backend.ModelRepository."""
        config = parameters.get(_CONFIG)
        files = {key: value for key, value in parameters.items() if key != _CONFIG and isinstance(value, bytes)}
        if config is not None and not isinstance(config, str):
            raise ServingError(ErrorKind.INVALID_ARGUMENT, f"parameter '{_CONFIG}' of loading: expected a string")
        self.repository.load(name, config, files)

    def unload(self, name: str, unload_dependents: bool) -> None:
        """See backend.ModelRepository."""
        self.repository.unload(name, unload_dependents)


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
