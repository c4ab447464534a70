"""An operator's way to the processes below a directory: by their supervisor, or one by one if there is none."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from nnhal.contexts import Closing
from nnhal.endpoint import endpoints_below
from nnhal.errors import NnhalError
from nnhal.v1 import framework_admin_pb2, supervisor_pb2
from nnhal_hosting.admin_keys import read_admin_key
from nnhal_pages.operating.contacts import Contacts
from nnhal_pages.operating.observer import Answers, ProcessObserver
from nnhal_pages.operating.snapshot import NO_DETAIL, Detail, ObservedProcess, OperatorError, Snapshot

_PATIENCE_SECONDS = 5.0
_AT_A_TIME = 8
_NOBODY = (FileNotFoundError, NotADirectoryError, ConnectionRefusedError)
"""What connecting fails with if no supervisor is there."""
_OF_EACH = Detail.SESSIONS | Detail.PROCESSES | Detail.DEVICES


class OperatorSession(Closing):
    """The processes below a directory. Use as a context. Every method raises NnhalError if one does not answer."""

    def __init__(self, directory: Path, key_file: Path | None = None) -> None:
        """Reach the supervisor, if there is one. ``key_file`` holds the admin key of processes without one.

        Raises OSError or ValueError if the file is not as expected, and NnhalError if the supervisor does not answer.
        """
        self.directory = directory
        self._key = read_admin_key(key_file) if key_file is not None else ""
        self._is_supervised = False
        self.contacts = Contacts(directory, lambda: self._key, lambda: Snapshot(processes=tuple(self.processes())))
        try:
            self._key = self.contacts.supervisor().admin_key()
            self._is_supervised = True
        except NnhalError as error:
            if key_file is None and not isinstance(_first_cause(error), _NOBODY):
                self.close()
                raise OperatorError(
                    f"the supervisor of {directory} cannot be asked: {error}",
                    "it may be another user's, in another container, or stopped; '--admin-key FILE' does without it",
                ) from error

    @property
    def supervisor(self) -> supervisor_pb2.ListProcessesResponse | None:
        """What the supervisor says; None if there is none."""
        return self.contacts.supervisor().processes() if self._is_supervised else None

    def processes(self, supervisor: supervisor_pb2.ListProcessesResponse | None = None) -> list[ObservedProcess]:
        """The processes that there are, whether they answer or not. Raises OperatorError if none is.

        ``supervisor`` is what a supervisor has just said.
        """
        said = supervisor or self.supervisor
        if said is not None:
            return [ObservedProcess(each.name, each.kind, each.directory, each) for each in said.processes]
        found = [
            ObservedProcess(endpoint.directory.name, endpoint.service, str(endpoint.directory))
            for endpoint in endpoints_below(self.directory)
        ]
        if not found:
            raise OperatorError(
                f"no process of nnhal serves below {self.directory}",
                "'nnhal up' starts devices and a framework; --directory or NNHAL_DIRECTORY says where they are",
            )
        return found

    def find(self, name: str) -> ObservedProcess:
        """The process of a name. Raises OperatorError for another name."""
        return Snapshot(processes=tuple(self.processes())).known(name)

    def look(self, details: Detail = NO_DETAIL) -> Snapshot:
        """Ask the supervisor and all processes once, at the same time; what does not answer has a ``silence``.

        Without details the framework alone is asked. Raises as ``processes`` does.
        """
        supervisor = self.supervisor
        targets = self.processes(supervisor)
        events = self.contacts.supervisor().events() if self._is_supervised else []
        at = time.time()
        with ThreadPoolExecutor(_AT_A_TIME, thread_name_prefix="census") as pool:
            asked = {
                target.name: ProcessObserver(target, self._key, pool, patience=_PATIENCE_SECONDS, most_runs=0)
                for target in targets
                if target.kind == "framework" or (target.kind == "device" and details & _OF_EACH)
            }
            for observer in asked.values():
                observer.ask(details)
        processes = tuple(asked[each.name].take() if each.name in asked else each for each in targets)
        for observer in asked.values():
            observer.close()
        answers = next((o.answers for o in asked.values() if o.answers.framework is not None), Answers())
        if answers.framework is not None:
            events += answers.framework.events
        runs = answers.runs or framework_admin_pb2.GetRunsResponse()
        return Snapshot(
            at=at,
            supervisor=supervisor,
            processes=processes,
            framework=answers.framework,
            live=tuple(runs.live),
            finished=tuple(runs.finished),
            recordings=tuple(runs.recordings),
            events=tuple(sorted(events, key=lambda event: event.at_ns)),
        )

    def close(self) -> None:
        """End all sessions."""
        self.contacts.close()


def _first_cause(error: BaseException) -> BaseException:
    return error if error.__cause__ is None else _first_cause(error.__cause__)
