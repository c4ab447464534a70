"""The settings of a device process: NNHAL_DEVICE_* in the environment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field
from pydantic_settings import NoDecode, SettingsConfigDict

from nnhal_devices.dynamic.trial import SECONDS
from nnhal_hosting.settings import MOST, MOST_BYTES, ProcessSettings


def _divided(value: object) -> object:
    """Divide a list of directories at its colons."""
    return [part for part in value.split(":") if part] if isinstance(value, str) else value


def _pairs(value: object) -> object:
    """Read ``KEY=VALUE``: several with commas between them, or a list of them."""
    if isinstance(value, Mapping):
        return value
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, Iterable):
        return value
    pairs = [str(item).partition("=") for item in items if item]
    wrong = next(("".join(pair) for pair in pairs if not pair[0] or not pair[1]), None)
    if wrong is not None:
        raise ValueError(f"got {wrong!r}, expected KEY=VALUE")
    return {key: text for key, _, text in pairs}


class DeviceSettings(ProcessSettings):
    """The settings of a device process besides its driver and its endpoint."""

    model_config = SettingsConfigDict(env_prefix="NNHAL_DEVICE_", frozen=True, extra="forbid")

    workers: int = Field(default=1, ge=1, le=256)
    """Executions that run at a time."""

    buffer_bytes: int = Field(default=4 << 30, ge=0, le=MOST_BYTES)
    """Memory of buffers of all clients.

    Beyond it RESOURCE_EXHAUSTED_TRANSIENT.
    """

    turn_seconds: float = Field(default=5.0, gt=0, le=86_400)
    """Seconds that an execution may have others wait for its worker.

    Beyond it the next one runs beside it.
    """

    model_bytes: int = Field(default=8 << 30, ge=0, le=MOST_BYTES)
    """Memory of constants of prepared models and of copies of files, of all clients.

    Beyond it RESOURCE_EXHAUSTED_TRANSIENT.
    """

    memory_bytes: int = Field(default=0, ge=0, le=MOST_BYTES)
    """Memory of the process's own; 0 for 80 % of what host and control group allow.

    Beyond it the process ends. /proc/self/statm is read 10 to 40 times a second.
    """

    stop_seconds: float = Field(default=10.0, gt=0, le=86_400)
    """Seconds that an execution may go on after it should have ended.

    Beyond it the process ends, since its driver hangs.
    """

    hang_seconds: float = Field(default=5.0, ge=0, le=86_400)
    """Seconds of an execution whose runs were short; 0 for no limit.

    Beyond it, and beyond 20 times the slowest run, the execution is cancelled.
    """

    synchronous_fences: bool = False
    """Compute a fenced execution in the call that launches it, and return no fence."""

    map_files: bool = True
    """Map files that may shrink under a guard if the driver can run so, instead of staging them."""

    threads: int = Field(default=1, ge=1, le=256)
    """Threads that one execution may use, if the driver can use several."""

    options: Annotated[Mapping[str, str], NoDecode, BeforeValidator(_pairs)] = {}
    """The driver's own options: ``KEY=VALUE``, with commas between them."""

    spin_us: int = Field(default=0, ge=0, le=10_000)
    """Microseconds to look for the next call after a call before sleeping; none if there is only one processor."""

    backend_paths: Annotated[tuple[Path, ...], NoDecode, BeforeValidator(_divided)] = ()
    """Absolute directories, colons between them, in whose backend files the process looks for its driver."""

    backend_seconds: float = Field(default=SECONDS, gt=0, le=86_400)
    """Seconds that a backend file may take to load.

    Beyond it the file is refused.
    """

    allow_faults: bool = False
    """Let the user who runs the process give the device faults."""

    faults: Path | None = None
    """A file of faults that the device has from the start on."""

    allow_recording: bool = False
    """Let the user who runs the process record the calls of all clients."""

    recording_calls: int = Field(default=65_536, ge=1, le=MOST)
    """Calls that wait to be written to a recording.

    Beyond it calls are left out and counted.
    """

    recording_bytes: int = Field(default=256 << 20, ge=0, le=MOST_BYTES)
    """Bytes of inputs, outputs and buffers that wait to be written to a recording.

    Beyond it values are left out and counted.
    """

    listen: str = ""
    """HOST:PORT at which frameworks on other hosts reach the device; port 0 lets the system choose."""

    tls_certificate: Path | None = None
    """The certificate of the address in ``listen``, PEM."""

    tls_key: Path | None = None
    """The key of the certificate, PEM."""

    tls_client_ca: Path | None = None
    """The authority of clients' certificates there, PEM; clients without one are refused."""

    tokens: Path | None = None
    """A file with the tokens of those who may use the device from other hosts."""

    insecure: bool = False
    """Listen beyond this host without TLS, or without tokens and certificates of clients."""

    wire_sessions: int = Field(default=16, ge=1, le=1024)
    """Sessions of other hosts.

    Beyond it RESOURCE_EXHAUSTED_TRANSIENT.
    """

    wire_session_bytes: int = Field(default=4 << 30, ge=1, le=MOST_BYTES)
    """Bytes that one session of another host holds: arguments, buffers, constants of models, unfinished uploads.

    Beyond it RESOURCE_EXHAUSTED_TRANSIENT.
    """

    wire_upload_bytes: int = Field(default=1 << 30, ge=1, le=MOST_BYTES)
    """Bytes of one constant from another host.

    Beyond it RESOURCE_EXHAUSTED_TRANSIENT.
    """

    wire_constant_bytes: int = Field(default=2 << 30, ge=1, le=MOST_BYTES)
    """Bytes of constants of other hosts that are kept for later models and sessions.

    Beyond it the least recently used are dropped.
    """

    wire_objects: int = Field(default=4096, ge=1, le=MOST)
    """Prepared models, executions and buffers of one session of another host.

    Beyond it RESOURCE_EXHAUSTED_TRANSIENT.
    """

    wire_message_bytes: int = Field(default=64 << 20, ge=4 << 20, le=2**31 - 1)
    """Bytes of one message of another host: a model without its large constants, or a chunk of a tensor.

    Beyond it RESOURCE_EXHAUSTED. Messages that come together may take as much for each session; beyond that calls are
    cancelled.
    """
