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
    """Memory that models of native clients take while they are loaded: three times the bytes of a file, and twice those
    of other files with weights.

    Beyond it RESOURCE_EXHAUSTED_TRANSIENT.
    """

    plan_secs: float = Field(default=300.0, gt=0, le=MOST_SECONDS)
    """Seconds that a plan of a native client is kept after its last use.

    Beyond it loading from the plan is INVALID_ARGUMENT. The memory of a plan counts as that of loading.
    """

    value_bytes: int = Field(default=0, ge=0, le=MOST_BYTES)
    """Host memory of values between steps and devices, of all runs; 0 for 80 % of what host and control group allow.

    Beyond it RESOURCE_EXHAUSTED_TRANSIENT, over HTTP 429. Counting takes microseconds for each binding.
    """

    model_repository: tuple[Path, ...] = ()
    """Folders of models."""

    model_control_mode: ControlMode = ControlMode.NONE
    """What decides which models are loaded."""

    load_model: tuple[str, ...] = ()
    """The models that are loaded at the start in mode explicit."""

    repository_poll_secs: float = Field(default=15.0, gt=0, le=MOST_SECONDS)
    """Seconds between two looks at the repositories in mode poll."""

    unload_secs: float = Field(default=30.0, ge=0, le=86_400)
    """Seconds that requests of a model may take once it is unloaded or replaced.

    Beyond it they end with CANCELLED, over HTTP 499.
    """

    hang_secs: float = Field(default=2.0, gt=0, le=MOST_SECONDS)
    """Seconds that a device's process may not answer while a run waits for it.

    Beyond it the process is killed, or the device is given up if the framework cannot kill it. A link is opened each
    second.
    """

    stall_secs: float = Field(default=10.0, ge=0, le=MOST_SECONDS)
    """Seconds that a device may use no processor time while it is asked about a model or prepares it; 0 for no limit.

    Beyond it the model is planned without the device.
    """

    calibration: Path | None = None
    """A file of ``nnhal calibrate``: devices are modelled as they were measured on this machine."""

    strict_readiness: bool = True
    """Be ready only when every model is."""

    exit_on_error: bool = True
    """End the process if a model fails at the start."""

    max_models: int = Field(default=1024, ge=0, le=MOST)
    """Versions of models that the repository has loaded, and models of one native session; 0 for no limit.

    Beyond it RESOURCE_EXHAUSTED, over HTTP 429.
    """

    substitute_bytes: int = Field(default=1024 * _MEBIBYTE, ge=0, le=MOST_BYTES)
    """Constants in plans that are kept ready for the death of a device; 0 for no such plans.

    Beyond it other models are planned when a device dies.
    """

    max_model_nodes: int = Field(default=DEFAULT_LIMITS.nodes, ge=1, le=MOST)
    """Nodes of a model file, those of its subgraphs and functions included.

    Beyond it the model is refused with INVALID_ARGUMENT.
    """

    folded_operation_bytes: int = Field(default=DEFAULT_LIMITS.operation_bytes, ge=0, le=MOST_BYTES)
    """Bytes that one operation on constants may make on import, or twice the model's own constants if that is more.

    Beyond it the devices compute the operation.
    """

    folded_bytes: int = Field(default=DEFAULT_LIMITS.folded_bytes, ge=0, le=MOST_BYTES)
    """Bytes that all constants computed on import may take, besides four times the model's own.

    Beyond it the devices compute them.
    """

    model_config_name: str = ""
    """Name of the models' other configurations that is used."""

    allow_http: bool = True
    """Serve HTTP."""

    http_host: str = "127.0.0.1"
    """The address of HTTP."""

    http_port: int = Field(default=8000, ge=0, le=65535)
    """The port of HTTP; 0 for any that is free."""

    http_max_input_size: int = Field(default=64 * _MEBIBYTE, gt=0, le=MOST_BYTES)
    """Bytes of a body, before and after decompression.

    Beyond it 400.
    """

    http_max_connections: int = Field(default=1024, ge=1, le=MOST)
    """Open connections of HTTP.

    Beyond it 503.
    """

    http_max_head_size: int = Field(default=32 * 1024, ge=1024, le=_MEBIBYTE)
    """Bytes of the head of a request, with its trailers.

    Beyond it 431.
    """

    http_max_headers: int = Field(default=128, ge=16, le=4096)
    """Headers of a request, with its trailers.

    Beyond it 431.
    """

    http_stalled_secs: float = Field(default=10.0, gt=0, le=MOST_SECONDS)
    """Seconds for a head, for the next byte of a body, and until the client reads on.

    Beyond it 408, or the connection is closed.
    """

    http_idle_secs: float = Field(default=60.0, gt=0, le=MOST_SECONDS)
    """Seconds that a connection stays open without a request.

    Beyond it the connection is closed.
    """

    allow_grpc: bool = True
    """Serve gRPC."""

    grpc_host: str = "127.0.0.1"
    """The address of gRPC."""

    grpc_port: int = Field(default=8001, ge=0, le=65535)
    """The port of gRPC; 0 for any that is free."""

    grpc_max_message_size: int = Field(default=2**31 - 1, gt=0, le=2**31 - 1)
    """Bytes of one message of gRPC.

    Beyond it RESOURCE_EXHAUSTED.
    """

    grpc_max_connections: int = Field(default=1024, ge=1, le=MOST)
    """Open connections of gRPC at each address.

    Beyond it a connection is closed when it comes.
    """

    allow_metrics: bool = True
    """Serve metrics for Prometheus."""

    metrics_host: str = "127.0.0.1"
    """The address of metrics."""

    metrics_port: int = Field(default=8002, ge=0, le=65535)
    """The port of metrics; 0 for any that is free."""

    front_workers: int = Field(default=1, ge=0, le=64)
    """Processes that serve the ports of HTTP and gRPC; with 0 or 1 the framework's own process does."""

    inference_threads: int = Field(default=16, ge=1, le=256)
    """Large requests that are decoded, copied or encoded at a time; small ones are served in the event loop.

    Beyond it requests wait. Each takes a thread.
    """

    request_memory: int = Field(default=4096 * _MEBIBYTE, ge=0, le=MOST_BYTES)
    """Bytes that the requests of all clients hold; 0 for no limit.

    Beyond it RESOURCE_EXHAUSTED, over HTTP 429.
    """

    allow_client_shm: bool = False
    """Let clients register files in /dev/shm."""

    client_shm_regions: int = Field(default=1024, ge=1, le=MOST)
    """Regions of shared memory that one client registers.

    Beyond it RESOURCE_EXHAUSTED.
    """

    tokens: Path | None = None
    """A file of bearer tokens. Without one, clients of this user, of root and of ``allowed_uids`` may do everything."""

    allowed_hosts: tuple[HostName, ...] = ()
    """Other names under which the ports of HTTP may be addressed; ``*`` for any."""

    rate_limit: float = Field(default=0.0, ge=0, le=MOST)
    """Requests a second of one client; 0 for no limit.

    Beyond it RESOURCE_EXHAUSTED, over HTTP 429. With a limit clients get no run channel.
    """

    tls_certificate: Path | None = None
    """The certificate of the ports, PEM."""

    tls_key: Path | None = None
    """The key of the certificate, PEM."""

    tls_client_authority: Path | None = None
    """The authority of clients' certificates, PEM; clients without one are refused."""

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
