"""Having a model of the repository run by another plan, without a request that fails."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.inference import model_config_pb2 as wire
from nnhal_service.operating.targets import OperatedRepository
from nnhal_service.partition import Pin
from nnhal_service.repository import Opened
from nnhal_service.repository.parameters import placement_lines, set_placement
from nnhal_service.repository.source import ModelSource
from nnhal_service.runtime import LoadedModel
from nnhal_service.serving import ServedModel


def apply_plan(
    repository: OperatedRepository, name: str, version: str, pins: Sequence[Pin], devices: Sequence[str]
) -> str:
    """Serve a version by a plan with these pins and no others, over these devices if some are given.

    An empty version is the newest that is ready. Requests are served all the time. Returns what has to stand in the
    configuration file for the same plan. Raises ServingError, and changes nothing then.
    """
    lines = ""

    def reopen(opened: Opened[ServedModel], source: ModelSource) -> Opened[ServedModel]:
        nonlocal lines
        config = wire.ModelConfig()
        config.CopyFrom(opened.config)
        set_placement(config, pins, devices)
        lines = placement_lines(config)
        served = opened.served

        def load() -> LoadedModel:
            return LoadedModel(served.loaded.original.planner.choose(pins, devices).prepare())

        return repository.opener.reopen(opened, load, config, served.config, source)

    repository.models.load_again(name, version, reopen)
    return lines
