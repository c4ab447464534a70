"""The settings of the dashboard: its options, then NNHAL_DASHBOARD_* in the environment, then the default."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from nnhal.endpoint import default_directory
from nnhal_hosting.access import HostName
from nnhal_hosting.settings import MOST, MOST_BYTES, EnvironmentSettings

CLIENT_NAME = "nnhal-dashboard"
"""What the dashboard calls itself to processes."""


class DashboardSettings(EnvironmentSettings):
    """Address, access and processes of the dashboard."""

    model_config = SettingsConfigDict(env_prefix="NNHAL_DASHBOARD_", frozen=True, extra="forbid")

    directory: Path = Field(default_factory=default_directory)
    """The directory of the testbed: that of its supervisor, framework and devices."""

    framework: Path | None = None
    """The framework's directory, if no supervisor of nnhal says it."""

    device: tuple[tuple[str, Path], ...] = ()
    """Names and directories of devices that neither a supervisor nor the framework names."""

    admin_key: Path | None = None
    """The file with the admin key of processes that nnhal does not supervise."""

    host: str = "127.0.0.1"
    """The address of the pages."""

    port: int = Field(default=8003, ge=0, le=65535)
    """The port; 0 lets the system choose."""

    max_connections: int = Field(default=1024, ge=1, le=MOST)
    """Open connections of browsers.

    Beyond it 503.
    """

    allowed_host: tuple[HostName, ...] = ()
    """Names besides those of the loopback by which browsers may reach the dashboard."""

    tokens: Path | None = None
    """A file of bearer tokens; without one, the user who runs the dashboard may do everything, and root."""

    allowed_uids: tuple[int, ...] = ()
    """Other users of this host who may do so too."""

    tls_certificate: Path | None = None
    """The certificate of the pages, PEM."""

    tls_key: Path | None = None
    """The key of the certificate, PEM."""

    insecure: bool = False
    """Listen beyond this host without TLS and tokens."""

    history: Path | None = None
    """The file in which samples and events of a day outlast the dashboard; without one they end with it."""

    upload_bytes: int = Field(default=1 << 30, gt=0, le=MOST_BYTES)
    """Bytes of a model's file that is uploaded.

    Beyond it the file is refused with the number.
    """

    log_level: Literal["debug", "info", "warning", "error"] = "warning"
    """The lowest level that is logged."""

    log_json: bool = False
    """Log lines as JSON."""
