"""The model repository: finding, configuring, loading and unloading the models that are served."""

from nnhal_service.repository.entry import ModelIndex, ModelState
from nnhal_service.repository.opening import Opener
from nnhal_service.repository.options import ControlMode, RepositoryOptions
from nnhal_service.repository.ready_versions import Lease, Open, Opened, Servable, Serve
from nnhal_service.repository.repository import Repository

__all__ = [
    "ControlMode",
    "Lease",
    "ModelIndex",
    "ModelState",
    "Open",
    "Opened",
    "Opener",
    "Repository",
    "RepositoryOptions",
    "Servable",
    "Serve",
]
