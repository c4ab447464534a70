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
    """Memory that buffers of all clients together may take."""

    turn_seconds: float = Field(default=5.0, gt=0, le=86_400)
    """How long an execution may have others wait for its worker; then the next one runs beside it."""

    model_bytes: int = Field(default=8 << 30, ge=0, le=MOST_BYTES)
    """Memory that constants of prepared models and copies of files, all clients' together, may take."""

    memory_bytes: int = Field(default=0, ge=0, le=MOST_BYTES)
    """Memory of its own that the process may take before it ends; 0 for 80 % of what host and control group allow."""

    stop_seconds: float = Field(default=10.0, gt=0, le=86_400)
    """How long after it should have ended an execution may go on; then the process ends, since its driver hangs."""

    hang_seconds: float = Field(default=5.0, ge=0, le=86_400)
    """How long an execution may take however short its runs were; then it hangs at 20 times the slowest. 0: never."""

    synchronous_fences: bool = False
    """Whether a fenced execution is computed in the call that launches it, and returns no fence."""

    map_files: bool = True
    """Whether files that may shrink are mapped under a guard if the driver can run so, and not always staged."""

    threads: int = Field(default=1, ge=1, le=256)
    """Threads that one execution may use, if the driver can use several."""

    options: Annotated[Mapping[str, str], NoDecode, BeforeValidator(_pairs)] = {}
    """The driver's own options: ``KEY=VALUE``, with commas between them."""

    spin_us: int = Field(default=0, ge=0, le=10_000)
    """Microseconds to look for the next call after a call before sleeping; none if there is only one processor."""

    backend_paths: Annotated[tuple[Path, ...], NoDecode, BeforeValidator(_divided)] = ()
    """Absolute directories, colons between them, in whose backend files the process looks for its driver."""

    backend_seconds: float = Field(default=SECONDS, gt=0, le=86_400)
    """How long a backend file may take to load before it is refused."""

    allow_faults: bool = False
    """Whether the user who runs the process may tell the device to misbehave."""

    faults: Path | None = None
    """A file of faults that the device has from the start on."""

    allow_recording: bool = False
    """Whether the user who runs the process may record what all clients ask of the device."""

    recording_calls: int = Field(default=65_536, ge=1, le=MOST)
    """Calls that may wait to be written to a recording; more are dropped, and counted."""

    recording_bytes: int = Field(default=256 << 20, ge=0, le=MOST_BYTES)
    """Bytes of inputs, outputs and buffers that may wait to be written; those of further calls are left out."""

    listen: str = ""
    """HOST:PORT at which frameworks on other hosts reach the device; port 0 lets the system choose."""

    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None
    """Only clients with a certificate of this authority are admitted there."""

    tokens: Path | None = None
    """The tokens of those who may use the device from other hosts."""

    insecure: bool = False
    """Listen beyond this host without TLS, or without tokens and certificates of clients."""

    wire_sessions: int = Field(default=16, ge=1, le=1024)
    """Sessions of other hosts that may be open at a time."""

    wire_session_bytes: int = Field(default=4 << 30, ge=1, le=MOST_BYTES)
    """Bytes that one session of another host may hold: arguments, buffers, constants of models, unfinished uploads."""

    wire_upload_bytes: int = Field(default=1 << 30, ge=1, le=MOST_BYTES)
    """Bytes of one constant that another host sends."""

    wire_constant_bytes: int = Field(default=2 << 30, ge=1, le=MOST_BYTES)
    """Bytes of constants of other hosts that are kept for later models and sessions."""

    wire_objects: int = Field(default=4096, ge=1, le=MOST)
    """Prepared models, executions and buffers that one session of another host may own."""

    wire_message_bytes: int = Field(default=64 << 20, ge=4 << 20, le=2**31 - 1)
    """Bytes of one message of another host: a model without its large constants, or a chunk of a tensor."""
