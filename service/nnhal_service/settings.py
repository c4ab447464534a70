"""The settings of the framework process: its options, then NNHAL_SERVICE_* in the environment, then the default."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from nnhal_frontends import DEFAULT_LIMITS, ImportLimits
from nnhal_hosting.access import HostName
from nnhal_hosting.settings import MOST, MOST_BYTES, MOST_SECONDS, ProcessSettings
from nnhal_service.repository import ControlMode

_MEBIBYTE = 1 << 20


class ServiceSettings(ProcessSettings):
    """The settings of the framework process, besides its endpoint and its devices.

    The protocol is served if there is a model repository.
    """

    model_config = SettingsConfigDict(
        env_prefix="NNHAL_SERVICE_", frozen=True, extra="forbid", protected_namespaces=("settings_",)
    )

    cache_directory: str = ""
    """The directory of compilations for clients that give tokens; empty for no caching."""

    load_bytes: int = Field(default=8192 * _MEBIBYTE, ge=0, le=MOST_BYTES)
    """Memory that native clients' models take while they are loaded, three times the bytes of a file, and twice those
    of other files with weights."""

    plan_secs: float = Field(default=300.0, gt=0, le=MOST_SECONDS)
    """How long a plan of a native client is kept after its last use, to be loaded from."""

    value_bytes: int = Field(default=0, ge=0, le=MOST_BYTES)
    """Host memory of values between steps, all runs together; 0 for 80 % of what host and control group allow."""

    model_repository: tuple[Path, ...] = ()
    """Folders of models."""

    model_control_mode: ControlMode = ControlMode.NONE
    """What decides which models are loaded."""

    load_model: tuple[str, ...] = ()
    """The models that are loaded at the start in mode explicit."""

    repository_poll_secs: float = Field(default=15.0, gt=0, le=MOST_SECONDS)
    """How often the repositories are checked in mode poll."""

    unload_secs: float = Field(default=30.0, ge=0, le=86_400)
    """Seconds that requests of a model may take once it is unloaded or replaced; then they are cancelled."""

    hang_secs: float = Field(default=2.0, gt=0, le=MOST_SECONDS)
    """How long a device's process may not answer at all while a run waits for it; then it is ended."""

    stall_secs: float = Field(default=10.0, ge=0, le=MOST_SECONDS)
    """How long a device may do nothing, by its processor time, about a model that it is asked about or prepares; then
    the model is planned without it. 0 for ever."""

    calibration: Path | None = None
    """A file of ``nnhal calibrate``: devices are modelled as they were measured on this machine."""

    strict_readiness: bool = True
    """The server is ready only when every model is."""

    exit_on_error: bool = True
    """A model that fails at the start ends the process."""

    max_models: int = Field(default=1024, ge=0, le=MOST)
    """Versions of models that the repository has loaded at a time, and models of one native client; 0 for no limit."""

    substitute_bytes: int = Field(default=1024 * _MEBIBYTE, ge=0, le=MOST_BYTES)
    """What plans may count that are prepared for the case that a device dies; 0 for none."""

    max_model_nodes: int = Field(default=DEFAULT_LIMITS.nodes, ge=1, le=MOST)
    """Nodes of a model file, those of its subgraphs and functions included."""

    folded_operation_bytes: int = Field(default=DEFAULT_LIMITS.operation_bytes, ge=0, le=MOST_BYTES)
    """Bytes that one operation on constants may make on import, or twice the model's own constants if that is more."""

    folded_bytes: int = Field(default=DEFAULT_LIMITS.folded_bytes, ge=0, le=MOST_BYTES)
    """Bytes that the constants that are computed on import may take, besides four times the model's own."""

    model_config_name: str = ""
    """Which of the models' other configurations to use."""

    allow_http: bool = True
    http_host: str = "127.0.0.1"
    http_port: int = Field(default=8000, ge=0, le=65535)
    http_max_input_size: int = Field(default=64 * _MEBIBYTE, gt=0, le=MOST_BYTES)
    """The longest body of a request, in bytes."""

    http_max_connections: int = Field(default=1024, ge=1, le=MOST)
    http_max_head_size: int = Field(default=32 * 1024, ge=1024, le=_MEBIBYTE)
    """The longest head of a request, with its trailers, in bytes."""

    http_max_headers: int = Field(default=128, ge=16, le=4096)
    """The most headers of a request, with its trailers."""

    http_stalled_secs: float = Field(default=10.0, gt=0, le=MOST_SECONDS)
    """How long a client may take for the head of a request, and for any progress of a body or a response."""

    http_idle_secs: float = Field(default=60.0, gt=0, le=MOST_SECONDS)
    """How long a connection stays open without a request."""

    allow_grpc: bool = True
    grpc_host: str = "127.0.0.1"
    grpc_port: int = Field(default=8001, ge=0, le=65535)
    grpc_max_message_size: int = Field(default=2**31 - 1, gt=0, le=2**31 - 1)
    """The longest message, in bytes."""

    grpc_max_connections: int = Field(default=1024, ge=1, le=MOST)
    """Connections that are open at a time, at each address."""

    allow_metrics: bool = True
    metrics_host: str = "127.0.0.1"
    metrics_port: int = Field(default=8002, ge=0, le=65535)

    front_workers: int = Field(default=1, ge=0, le=64)
    """How many processes serve the ports of HTTP and gRPC; with 0 or 1 the framework's own process does."""

    inference_threads: int = Field(default=16, ge=1, le=256)
    """Threads that decode, copy and encode large tensors; small ones are served in the event loop."""

    request_memory: int = Field(default=4096 * _MEBIBYTE, ge=0, le=MOST_BYTES)
    """Bytes that the requests of all clients hold at a time; 0 for no limit."""

    allow_client_shm: bool = False
    """Clients may register files in /dev/shm."""

    client_shm_regions: int = Field(default=1024, ge=1, le=MOST)
    """How many regions one client may register."""

    tokens: Path | None = None
    """A file of bearer tokens; without one, clients of this user, of root and of ``allowed_uids`` may do everything."""

    allowed_hosts: tuple[HostName, ...] = ()
    """Other names under which the ports of HTTP may be addressed; ``*`` for any."""

    rate_limit: float = Field(default=0.0, ge=0, le=MOST)
    """Requests a second of one client; 0 for no limit."""

    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_client_authority: Path | None = None
    """Only clients with a certificate of this authority are admitted."""

    insecure: bool = False
    """Listen beyond this host without TLS and tokens."""

    metrics_config: tuple[str, ...] = ()
    """``summary_latencies=true`` and so on."""

    trace_directory: str = ""
    """The directory of trace files; empty for none."""

    trace_config: tuple[str, ...] = ()
    """``level=TIMESTAMPS``, ``rate=1`` and so on."""

    @property
    def import_limits(self) -> ImportLimits:
        return ImportLimits(self.max_model_nodes, self.folded_operation_bytes, self.folded_bytes)
