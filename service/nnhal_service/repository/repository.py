"""The repository: loading, unloading and handing out the models that are served."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from types import TracebackType
from typing import Generic

from nnhal.exhaustion import lack_of
from nnhal.threads import LastingThread
from nnhal_hosting.logs import get_logger
from nnhal_service.repository.entry import ModelIndex, ModelState, RepositoryEntry, unknown_model, unready_model
from nnhal_service.repository.layout import (
    VersionsToLoad,
    fingerprint_of,
    model_names,
    sources,
    the_source,
    versions_to_load,
)
from nnhal_service.repository.limits import VersionLimit
from nnhal_service.repository.names import require_model_name, version_of
from nnhal_service.repository.options import ALL, ControlMode, RepositoryOptions
from nnhal_service.repository.ready_versions import Lease, Open, ReadyVersion, Reopen, S
from nnhal_service.repository.source import GivenSource, ModelSource
from nnhal_service.serving.errors import ErrorKind, ServingError

_FILE = "file:"
Make = Callable[[RepositoryEntry[S]], dict[int, ReadyVersion[S]]]
"""Makes the versions of a model that are to serve. Raises ServingError, and then leaves nothing behind."""
_log = get_logger(__name__)


class Repository(Generic[S]):
    """Models by name and version, loaded and unloaded while others serve. Safe to use from several threads.

    Changes of one name wait for one another; those of different names do not. A load makes all versions of a model
    ready before any old one is closed, and changes nothing if one of them fails.
    """

    def __init__(
        self, options: RepositoryOptions, open_version: Open[S], changed: Callable[[str], None] = lambda _: None
    ) -> None:
        """``changed`` is called with a model's name when other versions of it serve than before, and before those that
        do not serve any more are closed; also after a load has failed.
        """
        self._options = options
        self._changed = changed
        self._open_version = open_version
        self._lock = threading.Lock()
        self._entries: dict[str, RepositoryEntry[S]] = {}
        self._limit = VersionLimit(options.max_models)
        self._slots = threading.BoundedSemaphore(options.load_threads)
        self._polling = threading.Lock()
        self._stopped = threading.Event()
        self._started = False
        self._required: Sequence[str] = ()
        """The models of the start."""
        self._is_listed = False
        self._poller: LastingThread | None = None

    def start(self) -> None:
        """Load the models of the start; in mode POLL, look for changes from then on.

        Raises ServingError if a model fails, not for want of room, and ``exit_on_error`` is set; nothing stays loaded
        then.
        """
        options = self._options
        every = options.mode != ControlMode.EXPLICIT or options.load_models == (ALL,)
        names = model_names(options.paths) if every else options.load_models
        self._required = names
        self._load_all(names)
        # What has failed for want of room is tried again (``tried`` is None); what is loaded goes on serving.
        failures = [entry.failure for entry in self._all() if entry.failure and entry.tried is not None]
        if failures and options.exit_on_error:
            self.close()
            raise ServingError(ErrorKind.INVALID_ARGUMENT, "; ".join(failures))
        self._started = True
        if options.mode == ControlMode.POLL:
            self._poller = LastingThread(self._keep_polling, "repository-poll")
            self._poller.start()

    def close(self) -> None:
        """Unload everything after the requests in flight have ended; harmless when repeated."""
        self._stopped.set()
        if self._poller is not None:
            self._poller.join()
        self._each([entry.name for entry in self._all()], self._unload)

    def __enter__(self) -> Repository[S]:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def ready(self) -> bool:
        """Return whether it has started and, in strict mode, each model of the start serves unless it was unloaded.

        A load that fails later is that model's failure: what served before serves on.
        """
        if not self._started or self._stopped.is_set():
            return False
        required = map(self._entry, self._required) if self._options.strict else ()
        return not any(entry.failure and not entry.ready for entry in required)

    def model(self, name: str, version: str = "") -> Lease[S]:
        """Hold a version of a model, by default the newest that is ready.

        Raises NOT_FOUND if the model is unknown, UNAVAILABLE if it is not ready or is about to be loaded,
        INVALID_ARGUMENT if ``version`` is not a version.
        """
        entry = self._entries.get(name)
        if entry is None:
            raise unknown_model(name) if self._is_listed else unready_model(name)
        return entry.lease(version_of(version) if version else None)

    def versions(self, name: str) -> list[str]:
        """Return the versions of a model that are ready, in order; none if the model is unknown."""
        entry = self._get(name)
        return [] if entry is None else [str(version) for version in entry.ready]

    def serials(self, name: str) -> frozenset[int]:
        """Return the serials of the versions of a model that are ready; see ``Lease.serial``."""
        entry = self._get(name)
        return frozenset() if entry is None else frozenset(ready.serial for ready in entry.ready.values())

    def is_ready(self, name: str, version: str = "") -> bool:
        """Say whether a version of a model is ready, by default any. Raises INVALID_ARGUMENT as ``model`` does."""
        wanted, versions = version_of(version), self.versions(name)
        return bool(versions) if wanted is None else str(wanted) in versions

    def index(self, ready: bool = False) -> list[ModelIndex]:
        """List all versions of all models by name and version, or with ``ready`` only those that serve."""
        rows = [row for entry in self._all() for row in entry.index()]
        if ready:
            rows = [row for row in rows if row.state == ModelState.READY]
        else:
            known = {row.name for row in rows}
            with suppress(ServingError):  # the loaded models can be listed all the same
                others = [name for name in model_names(self._options.paths) if name not in known]
                rows += [ModelIndex(name, "", ModelState.UNAVAILABLE, "not loaded") for name in others]
        return sorted(rows, key=lambda row: row.name)

    def known(self, name: str) -> list[ModelIndex]:
        """Return the index of one model that is loaded, was loaded, or failed to load. Reads no file."""
        entry = self._get(name)
        return [] if entry is None else entry.index()

    def load(
        self,
        name: str,
        config: str | None = None,
        files: Mapping[str, bytes] | None = None,
        by_operator: bool = False,
    ) -> None:
        """Load a model, or load it again if its files have changed; it is ready when this returns.

        ``config``, in JSON, replaces the configuration in the model's folder. ``files`` replace the whole folder: they
        map ``file:VERSION/NAME`` to content. An operator may load in every control mode, and leaves no trace in the
        index if ``files`` cannot be loaded. Raises ServingError: UNAVAILABLE if clients may not load, NOT_FOUND if no
        repository has the model, RESOURCE_EXHAUSTED if too much is loaded, and others if something is wrong with it.
        """
        self._require_explicit(by_operator)
        require_model_name(name)
        given = GivenSource({key.removeprefix(_FILE): content for key, content in files.items()}) if files else None
        if given is None and self._get(name) is None:
            the_source(self._options.paths, name)
        self._load(name, partial(self._opened, given=given, config=config), by_operator and given is not None)

    def load_again(self, name: str, version: str, reopen: Reopen[S]) -> None:
        """Serve a version as ``reopen`` makes it of what serves by now; it is ready when this returns.

        For operators, in every control mode. No file is read but what ``reopen`` reads, and the next load of the model
        reads all of them. A failure changes nothing. Raises as ``model`` and ``load``.
        """
        with self.model(name, version) as lease:
            number = int(lease.version)
        self._load(name, partial(self._reopened, number=number, reopen=reopen), is_trial=True)

    def unload(self, name: str, unload_dependents: bool = False, by_operator: bool = False) -> None:
        """Unload all versions of a model; its requests have ended and its memory is free when this returns.

        No model depends on another here, so ``unload_dependents`` makes no difference. An operator may unload in every
        control mode. Raises UNAVAILABLE if clients may not unload, NOT_FOUND if the model is unknown.
        """
        self._require_explicit(by_operator)
        require_model_name(name)
        if self._get(name) is None and not sources(self._options.paths, name):
            raise unknown_model(name)
        self._unload(name)

    def poll(self) -> None:
        """Load models that are new or have changed in the repositories, and unload those that are gone.

        Raises INTERNAL if a repository cannot be read; nothing is unloaded then.
        """
        with self._polling:
            there = model_names(self._options.paths)
            self._load_all([name for name in there if self._has_changed(name)])
            gone = [entry.name for entry in self._all() if entry.name not in there and not entry.is_given]
            self._each(gone, self._remove)

    def _keep_polling(self) -> None:
        while not self._stopped.wait(self._options.poll_seconds):
            with suppress(ServingError):  # a repository that cannot be read now may be readable later
                self.poll()

    def _has_changed(self, name: str) -> bool:
        entry = self._get(name)
        return entry is None or entry.tried != fingerprint_of(sources(self._options.paths, name))

    def _load_all(self, names: Sequence[str]) -> None:
        """Load models, several at a time; the index and the log say why one fails."""
        with ExitStack() as expected:
            for name in names:
                expected.enter_context(self._entry(name).expected())
            self._is_listed = True
            self._each(names, self._load_quietly)

    def _load_quietly(self, name: str) -> None:
        """Load a model; the index and the log say why if that fails."""
        with suppress(ServingError):
            self._load(name)

    def _load(self, name: str, make: Make[S] | None = None, is_trial: bool = False) -> None:
        """Serve what ``make`` returns, by default the folder's versions. A trial that fails leaves the index as it was.

        Raises ServingError.
        """
        entry = self._entry(name)
        with entry.expected(), entry.changing:
            before = entry.standing()
            try:
                try:
                    with self._slots:
                        old = self._replaced(entry, make or self._opened)
                except ServingError:
                    if is_trial:
                        entry.restore(before)
                    raise
                finally:
                    self._changed(name)
                self._close(entry, old)
            finally:
                self._limit.keep(name, len(entry.ready))

    def _replaced(self, entry: RepositoryEntry[S], make: Make[S]) -> dict[int, ReadyVersion[S]]:
        """Replace the versions that serve by those that ``make`` returns. Returns the old ones. Raises ServingError."""
        name = entry.name
        if self._stopped.is_set():
            raise ServingError(ErrorKind.UNAVAILABLE, "the server is stopping")
        try:
            versions = make(entry)
            old = entry.replace(versions)
        except ServingError as error:
            _log.warning("a model cannot be loaded", model=name, reason=error.message)
            entry.failed(error.message)
            if error.kind == ErrorKind.RESOURCE_EXHAUSTED:
                entry.tried = None  # so that the next poll tries again, when there may be room
            raise
        except Exception as error:
            # A file that makes its reader fail must not stop other models, and the client sees nothing internal.
            _log.exception("a model cannot be loaded", model=name)
            lack = lack_of(error)
            message = f"failed to load '{name}': {lack or 'internal error'}"
            entry.failed(message)
            raise ServingError(ErrorKind.RESOURCE_EXHAUSTED if lack else ErrorKind.INTERNAL, message) from error
        _log.info("a model is loaded", model=name, versions=list(versions))
        return old

    def _wanted(self, name: str, given: ModelSource | None, config: str | None) -> VersionsToLoad:
        try:
            source = given or the_source(self._options.paths, name)
            return versions_to_load(source, name, config, self._options.config_name)
        except ServingError as error:
            if error.kind == ErrorKind.NOT_FOUND:
                raise
            raise ServingError(error.kind, f"failed to load '{name}': {error.message}") from error

    def _opened(
        self, entry: RepositoryEntry[S], given: ModelSource | None = None, config: str | None = None
    ) -> dict[int, ReadyVersion[S]]:
        """Return the versions that are to serve: unchanged ones as they are, others loaded. Raises ServingError."""
        entry.tried = fingerprint_of(sources(self._options.paths, entry.name))
        wanted, serving = self._wanted(entry.name, given, config), entry.ready
        self._limit.take(entry.name, len(wanted.versions))
        entry.loading(wanted.versions)

        versions: dict[int, ReadyVersion[S]] = {}
        with ExitStack() as undo:
            for version, fingerprint in wanted.versions.items():
                if version in serving and serving[version].fingerprint == fingerprint:
                    versions[version] = serving[version]
                    continue
                opened = self._open_version(entry.name, version, wanted.config, wanted.source)
                versions[version] = ReadyVersion(opened, fingerprint)
                undo.callback(versions[version].close, 0)
            undo.pop_all()
        entry.is_given = given is not None
        return versions

    def _reopened(self, entry: RepositoryEntry[S], number: int, reopen: Reopen[S]) -> dict[int, ReadyVersion[S]]:
        """Return the versions that serve, one of them as ``reopen`` makes it anew. Raises ServingError."""
        entry.lease(number).release()
        source = GivenSource({}) if entry.is_given else the_source(self._options.paths, entry.name)
        again = ReadyVersion(reopen(entry.ready[number].opened, source), object())  # no folder is like it
        return {**entry.ready, number: again}

    def _unload(self, name: str) -> None:
        entry = self._entry(name)
        with entry.changing:
            try:
                old = entry.replace({})
                entry.is_given = False
                self._changed(name)
                self._close(entry, old)
            finally:
                self._limit.keep(name, 0)

    def _remove(self, name: str) -> None:
        """Unload a model whose folder is gone."""
        self._unload(name)
        self._entry(name).forget()
        self._changed(name)

    def _close(self, entry: RepositoryEntry[S], versions: Mapping[int, ReadyVersion[S]]) -> None:
        for ready in versions.values():
            ready.close(self._options.drain_seconds)
        entry.unloaded()
        self._changed(entry.name)

    def _each(self, names: Iterable[str], action: Callable[[str], None]) -> None:
        """Do an action for each name, several at a time."""
        with ThreadPoolExecutor(self._options.load_threads, "repository") as pool:
            list(pool.map(action, names))

    def _require_explicit(self, by_operator: bool) -> None:
        if not by_operator and self._options.mode != ControlMode.EXPLICIT:
            raise ServingError(
                ErrorKind.UNAVAILABLE,
                f"explicit model load / unload is not allowed in model control mode {self._options.mode.value}",
            )

    def _get(self, name: str) -> RepositoryEntry[S] | None:
        return self._entries.get(name)

    def _entry(self, name: str) -> RepositoryEntry[S]:
        with self._lock:
            return self._entries.setdefault(name, RepositoryEntry(name))

    def _all(self) -> list[RepositoryEntry[S]]:
        with self._lock:
            return [self._entries[name] for name in sorted(self._entries)]
