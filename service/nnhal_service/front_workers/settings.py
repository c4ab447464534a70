"""The settings of traces and of the log as a front worker sees them: they are the framework's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnhal_service.front_workers.peer import Peer
from nnhal_service.v2.backend import LogSetting, LogSettings, TraceSettings


class RemoteTraceSettings:
    """The TraceSettings of a front worker."""

    def __init__(self, framework: Peer) -> None:
        self._framework = framework

    def update(self, model_name: str, changes: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
        # The front may give values that are views of a message, which cannot be sent.
        plain = {key: tuple(values) for key, values in changes.items()}
        return self._framework.ask(TraceSettings.update, model_name, plain)


class RemoteLogSettings:
    """The LogSettings of a front worker. The framework tells all workers what has changed."""

    def __init__(self, framework: Peer) -> None:
        self._framework = framework

    def update(self, changes: Mapping[str, LogSetting]) -> Mapping[str, LogSetting]:
        return self._framework.ask(LogSettings.update, dict(changes))
