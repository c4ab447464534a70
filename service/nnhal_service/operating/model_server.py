"""The model server, as operators need it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from nnhal_service.operating.earlier_plans import EarlierPlans
from nnhal_service.repository import Opener, Repository
from nnhal_service.serving import ServedModel
from nnhal_service.serving.history.ended_runs import OtherProcesses

if TYPE_CHECKING:
    from nnhal_service.v2.repository import ServedRepository


class OperatedModelServer(Protocol):
    """Server of a repository's models. Safe to use from several threads."""

    @property
    def repository(self) -> Repository[ServedModel]: ...

    @property
    def served(self) -> ServedRepository:
        """The models in the protocol's terms."""
        ...

    @property
    def opener(self) -> Opener[ServedModel]: ...

    @property
    def earlier_plans(self) -> EarlierPlans:
        """The plans that its models had before."""
        ...

    @property
    def addresses(self) -> Mapping[str, str]: ...

    @property
    def ready(self) -> bool: ...

    @property
    def may_load(self) -> bool: ...

    @property
    def folders(self) -> Sequence[str]: ...

    @property
    def processes(self) -> OtherProcesses | None: ...

    def drain(self, drain: bool) -> None:
        """Refuse new requests, while those in flight end, and be not ready; or take requests again."""
        ...
