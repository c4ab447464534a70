"""Several hosts on one page: what this one does, and what the dashboards of the others say of theirs.

A file names the others, and is read again when it changes, so that whatever starts hosts may write it:

name = "red"                    # this host; the system's name without it
token = "/etc/nnhal/view"       # a file with a token that all the dashboards know
authority = "/etc/nnhal/ca.pem" # who has signed their certificates; the system's authorities without it

[[host]]
name = "blue"
url = "https://10.0.0.2:8003"
page = "https://blue.example"   # where browsers reach it, if that is elsewhere
"""

from __future__ import annotations

import http.client
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from nnhal.given_files import read_given_text, read_given_toml
from nnhal.quantiles import quantile, summed
from nnhal_dashboard.monitoring.history import History, RecentFigures
from nnhal_dashboard.monitoring.snapshot import Severity, Snapshot
from nnhal_hosting.settings import describe_invalid

SUMMARY = "/host.json"
"""Where a dashboard tells what its host does."""
_EVERY_SECONDS = 2.0
_ANSWER_SECONDS = 2.0
_MOST_BYTES = 1 << 16
_MOST_TOKEN_BYTES = 4096
_MOST_HOSTS = 256
_THREADS = 16


def _address(url: str) -> str:
    scheme, _, rest = url.partition("://")
    if scheme not in ("http", "https") or not rest.partition("/")[0] or "@" in rest or rest != "".join(rest.split()):
        raise ValueError(f"{url!r}, expected http://HOST:PORT or https://HOST:PORT")
    return url.rstrip("/")


WebAddress = Annotated[str, AfterValidator(_address)]


class ListedHost(BaseModel):
    """A host, and where its dashboard is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1, max_length=100)
    url: WebAddress
    page: WebAddress = ""
    """Where browsers reach it, if that is not ``url``."""


class HostList(BaseModel):
    """The file of hosts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(default="", max_length=100)
    """What this host is called; the system's name if it is empty."""
    token: Path | None = None
    authority: Path | None = None
    host: tuple[ListedHost, ...] = Field(default=(), max_length=_MOST_HOSTS)

    @model_validator(mode="after")
    def _distinct(self) -> HostList:
        names = [each.name for each in self.host]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"hosts {twice} are named twice")
        return self

    @classmethod
    def read(cls, path: Path) -> HostList:
        """Read a file. Raises OSError, or ValueError if it is malformed."""
        try:
            return cls.model_validate(read_given_toml(path, "a file of hosts"))
        except ValidationError as error:
            raise ValueError(f"{path}: {describe_invalid(error)}") from error

    @cached_property
    def headers(self) -> dict[str, str]:
        """The headers of a question. Raises OSError or ValueError for the token's file."""
        if self.token is None:
            return {}
        return {"Authorization": f"Bearer {read_given_text(self.token, 'a token', _MOST_TOKEN_BYTES).strip()}"}

    @cached_property
    def opener(self) -> urllib.request.OpenerDirector:
        """What asks: it follows nobody elsewhere with the token. Raises OSError for the authority's file."""
        context = ssl.create_default_context(cafile=None if self.authority is None else str(self.authority))
        return urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context), _StaysThere()
        )


class HostSummary(BaseModel):
    """What one host does: rates by second, of the last minute."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    version: str = Field(max_length=100)
    requests: float
    failures: float
    copied_bytes: float
    durations: tuple[int, ...] = Field(max_length=256)
    """Requests by duration, as ``ModelCounts.durations``."""
    models: int
    models_ready: int
    devices: int
    devices_up: int
    errors: int
    warnings: int
    worst: str = Field(max_length=2000)
    """The worst of what is wrong; empty if nothing is."""

    @property
    def slowest_ns(self) -> float | None:
        """What 99 % of the requests do not exceed."""
        return quantile(self.durations, 0.99)

    @classmethod
    def of(cls, snapshot: Snapshot, history: History) -> HostSummary:
        """What this host does."""
        recent = RecentFigures.of(history)
        models = snapshot.framework.models if snapshot.framework is not None else ()
        wrong = [problem.severity for problem in snapshot.problems]
        return cls(
            version=version("nnhal"),
            requests=recent.requests,
            failures=recent.failures,
            copied_bytes=recent.copied_bytes,
            durations=tuple(recent.durations),
            models=len(models),
            models_ready=sum(model.state == "READY" for model in models),
            devices=len(snapshot.devices),
            devices_up=sum(not device.is_dead for device in snapshot.devices),
            errors=wrong.count(Severity.ERROR),
            warnings=wrong.count(Severity.WARNING),
            worst=snapshot.problems[0].text[:2000] if snapshot.problems else "",
        )

    @classmethod
    def total(cls, hosts: Iterable[HostSummary]) -> HostSummary:
        """The sum of several hosts. Nothing of it is wrong, since each host's row says what is."""
        rows = list(hosts)
        added = {
            name: sum(getattr(row, name) for row in rows)
            for name, kind in cls.model_fields.items()
            if kind.annotation in (int, float)
        }
        return cls(version="", durations=tuple(summed(row.durations for row in rows)), worst="", **added)


@dataclass(frozen=True, slots=True)
class HostState:
    """What is known of a host."""

    name: str
    page: str
    """The address of its own dashboard."""
    summary: HostSummary | None = None
    """What it said last; None if it does not answer."""
    silence: str = ""
    """Why there is no answer; empty before the first one too."""


class HostsWatch:
    """Asks the dashboards of other hosts while somebody looks. Safe to use from several threads."""

    def __init__(self, path: Path | None) -> None:
        """Without ``path`` there is only this host. Raises OSError or ValueError if the file cannot be used."""
        self._path = path
        self._changed: tuple[int, ...] = ()
        self._list = HostList()
        self.trouble = ""
        """Why the file could not be read again; what it said before holds."""
        self._states: dict[ListedHost, HostState] = {}
        self._asked = float("-inf")
        self._asking: dict[ListedHost, Future[None]] = {}
        self._pool: ThreadPoolExecutor | None = None
        if path is not None:
            self._read(path)

    @property
    def is_configured(self) -> bool:
        """Whether other hosts are to be shown."""
        return self._path is not None

    @property
    def name(self) -> str:
        """What this host is called."""
        return self._list.name or socket.gethostname()

    def look(self, seconds: float = 0.0) -> Sequence[HostState]:
        """Return what is known of the other hosts, and have them asked if that is due.

        The answers are waited for ``seconds`` at the most.
        """
        if self._path is None:
            return ()
        now = time.monotonic()
        if now - self._asked >= _EVERY_SECONDS:
            self._asked = now
            try:
                self._read(self._path)
                self.trouble = ""
            except (OSError, ValueError) as error:
                self.trouble = str(error)
            self._ask(self._list)
        if seconds:
            wait(list(self._asking.values()), seconds)
        return [self._states.get(host) or HostState(host.name, host.page or host.url) for host in self._list.host]

    def close(self) -> None:
        """Ask no more."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _read(self, path: Path) -> None:
        status = path.stat()
        changed = status.st_mtime_ns, status.st_size, status.st_ino
        if changed != self._changed:
            self._list = HostList.read(path)
            self._changed = changed

    def _ask(self, hosts: HostList) -> None:
        """Ask all hosts that are not being asked."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="hosts")
        self._asking = {host: asking for host, asking in self._asking.items() if not asking.done()}
        self._states = {host: state for host, state in self._states.items() if host in hosts.host}
        for host in hosts.host:
            if host not in self._asking:
                self._asking[host] = self._pool.submit(self._learn, hosts, host)

    def _learn(self, hosts: HostList, host: ListedHost) -> None:
        page = host.page or host.url
        try:
            state = HostState(host.name, page, _asked(hosts, host.url))
        except (OSError, ValueError, http.client.HTTPException) as error:
            state = HostState(host.name, page, silence=_cause(error))
        self._states[host] = state


class _StaysThere(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _asked(hosts: HostList, url: str) -> HostSummary:
    request = urllib.request.Request(url + SUMMARY, headers=hosts.headers)
    with hosts.opener.open(request, timeout=_ANSWER_SECONDS) as answer:
        content = answer.read(_MOST_BYTES + 1)
    try:
        return HostSummary.model_validate_json(content)
    except ValidationError:
        raise ValueError("what answers there is no dashboard of nnhal, or one of another version") from None


def _cause(error: Exception) -> str:
    """Why a host has not answered, in words."""
    if isinstance(error, urllib.error.HTTPError):
        said = {401: "its dashboard does not know the token", 404: "its dashboard is older, or something else"}
        return said.get(error.code, f"it answers with {error.code}: {error.read(200).decode(errors='replace').strip()}")
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(reason, TimeoutError):
        return f"it has not answered within {_ANSWER_SECONDS:g} s"
    if isinstance(reason, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {reason.verify_message}"
    if isinstance(reason, OSError) and reason.strerror:
        return f"it cannot be reached: {reason.strerror}"
    return str(reason) or type(reason).__name__
