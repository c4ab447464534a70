"""How often clients may call, as a front worker sees it."""

from __future__ import annotations

from nnhal_service.access import ClientRates
from nnhal_service.front_workers.peer import Peer


class RemoteRates:
    """The ClientRates of a front worker. Each request asks the framework, so that a rate is one for all workers."""

    def __init__(self, framework: Peer) -> None:
        self._framework = framework

    def admit(self, client: str) -> bool:
        return self._framework.ask(ClientRates.admit, client)
