"""Settings that are limits: each says what happens beyond it, and a test shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnhal_dashboard.settings import DashboardSettings
from nnhal_devices.host.settings import DeviceSettings
from nnhal_hosting.settings import ProcessSettings
from nnhal_service.settings import ServiceSettings
from tests.reference.declared import strings_below
from tests.reference.limits import SETTINGS, own_fields

ROOT = Path(__file__).parents[2]
NO_LIMITS = {
    DashboardSettings: {"port"},
    DeviceSettings: {"workers", "threads", "spin_us"},
    ServiceSettings: {"http_port", "grpc_port", "metrics_port", "repository_poll_secs", "front_workers"},
    ProcessSettings: set[str](),
}
"""Numbers that bound nothing."""
SHOWN_BY = {
    "…_RPC_THREADS": ("tests/process/test_rpc_limits.py",),
    "…_RPC_WAITING": ("tests/process/test_rpc_limits.py",),
    "…_RPC_STREAMS": ("tests/system/test_idle_calls.py",),
    "…_RPC_CONNECTIONS": ("tests/process/test_rpc_limits.py",),
    "…_RPC_CONNECTION_CALLS": ("tests/hosting/calls/test_admission.py",),
    "…_RPC_READ_AHEAD_BYTES": ("tests/process/test_rpc_limits.py",),
    "…_RPC_MESSAGE_BYTES": ("tests/process/test_rpc_limits.py",),
    "…_RPC_MEMORY_BYTES": ("tests/process/test_rpc_limits.py", "tests/hosting/calls/test_admission.py"),
    "…_RPC_STALLED_SECS": ("tests/process/test_rpc_limits.py",),
    "…_MAX_SESSIONS": ("tests/process/test_link_abuse.py", "tests/hosting/test_link_server.py"),
    "…_MAX_DESCRIPTORS": ("tests/process/test_link_abuse.py", "tests/system/test_shares.py"),
    "NNHAL_SERVICE_LOAD_BYTES": ("tests/service/native/test_load_bytes.py",),
    "NNHAL_SERVICE_PLAN_SECS": ("tests/service/native/test_kept_plans.py",),
    "NNHAL_SERVICE_VALUE_BYTES": ("tests/system/test_memory_of_runs.py",),
    "NNHAL_SERVICE_UNLOAD_SECS": ("tests/system/test_endless.py",),
    "NNHAL_SERVICE_HANG_SECS": ("tests/system/test_hangs.py",),
    "NNHAL_SERVICE_STALL_SECS": ("tests/system/test_lies_at_loading.py",),
    "NNHAL_SERVICE_MAX_MODELS": ("tests/service/repository/test_limits.py",),
    "NNHAL_SERVICE_SUBSTITUTE_BYTES": ("tests/service/runtime/plan/test_substitutes.py",),
    "NNHAL_SERVICE_MAX_MODEL_NODES": ("tests/frontends/onnx/test_screening.py",),
    "NNHAL_SERVICE_FOLDED_OPERATION_BYTES": ("tests/frontends/onnx/test_folding_limits.py",),
    "NNHAL_SERVICE_FOLDED_BYTES": ("tests/frontends/onnx/test_folding_limits.py",),
    "NNHAL_SERVICE_HTTP_MAX_INPUT_SIZE": ("tests/service/v2/http/test_routes.py",),
    "NNHAL_SERVICE_HTTP_MAX_CONNECTIONS": ("tests/service/v2/http/test_connections.py",),
    "NNHAL_SERVICE_HTTP_MAX_HEAD_SIZE": ("tests/system/v2/test_long_heads.py",),
    "NNHAL_SERVICE_HTTP_MAX_HEADERS": ("tests/service/v2/http/test_heads.py",),
    "NNHAL_SERVICE_HTTP_STALLED_SECS": ("tests/service/v2/http/test_connections.py",),
    "NNHAL_SERVICE_HTTP_IDLE_SECS": ("tests/service/v2/http/test_connections.py",),
    "NNHAL_SERVICE_GRPC_MAX_MESSAGE_SIZE": ("tests/service/v2/grpc/test_server.py",),
    "NNHAL_SERVICE_GRPC_MAX_CONNECTIONS": ("tests/service/v2/grpc/test_server.py",),
    "NNHAL_SERVICE_INFERENCE_THREADS": ("tests/service/serving/test_loop.py",),
    "NNHAL_SERVICE_REQUEST_MEMORY": ("tests/service/access/test_budget.py", "tests/system/v2/test_limits.py"),
    "NNHAL_SERVICE_CLIENT_SHM_REGIONS": ("tests/service/v2/shared_memory/test_registry.py",),
    "NNHAL_SERVICE_RATE_LIMIT": ("tests/system/test_native_rates.py",),
    "NNHAL_DEVICE_BUFFER_BYTES": ("tests/process/test_buffer_budget.py",),
    "NNHAL_DEVICE_TURN_SECONDS": ("tests/devices/host/runs/test_scheduler.py",),
    "NNHAL_DEVICE_MODEL_BYTES": ("tests/process/test_large_files.py",),
    "NNHAL_DEVICE_MEMORY_BYTES": ("tests/process/test_memory_limit.py",),
    "NNHAL_DEVICE_STOP_SECONDS": ("tests/process/test_dead_devices.py",),
    "NNHAL_DEVICE_BACKEND_SECONDS": ("tests/devices/dynamic/test_loader.py",),
    "NNHAL_DEVICE_HANG_SECONDS": ("tests/process/test_dead_devices.py",),
    "NNHAL_DEVICE_RECORDING_CALLS": ("tests/process/test_recording.py",),
    "NNHAL_DEVICE_RECORDING_BYTES": ("tests/process/test_recording.py",),
    "NNHAL_DEVICE_WIRE_SESSIONS": ("tests/process/test_remote_uploads.py",),
    "NNHAL_DEVICE_WIRE_SESSION_BYTES": ("tests/process/test_remote_uploads.py",),
    "NNHAL_DEVICE_WIRE_UPLOAD_BYTES": ("tests/process/test_remote_uploads.py",),
    "NNHAL_DEVICE_WIRE_CONSTANT_BYTES": ("tests/devices/host/wire/test_constants.py",),
    "NNHAL_DEVICE_WIRE_OBJECTS": ("tests/process/test_remote_uploads.py",),
    "NNHAL_DEVICE_WIRE_MESSAGE_BYTES": ("tests/process/test_remote_access.py",),
    "NNHAL_DASHBOARD_MAX_CONNECTIONS": ("tests/service/v2/http/test_connections.py",),
    "NNHAL_DASHBOARD_UPLOAD_BYTES": ("tests/dashboard/pages/models/test_loading.py",),
}
"""Tests that show what happens beyond a limit."""
BOUNDING = [settings for settings in SETTINGS.values() if settings in NO_LIMITS]


@pytest.mark.parametrize("settings", BOUNDING, ids=lambda settings: settings.__name__)
def test_a_number_is_a_limit_or_bounds_nothing(settings: type[ProcessSettings]) -> None:
    numbers = {name for name, field in own_fields(settings).items() if field.annotation in (int, float)}
    limits = {name for name, text in strings_below(settings).items() if "\n\nBeyond it" in text}
    assert limits == numbers - NO_LIMITS[settings]


def test_a_test_shows_each_limit() -> None:
    named = set()
    for settings in BOUNDING:
        prefix = settings.model_config.get("env_prefix") or "…_"
        limits = own_fields(settings).keys() & strings_below(settings).keys()
        named |= {f"{prefix}{name}".upper() for name in limits if "\n\nBeyond it" in strings_below(settings)[name]}
    assert named == set(SHOWN_BY)


def test_the_tests_are_there() -> None:
    assert [path for paths in SHOWN_BY.values() for path in paths if not (ROOT / path).is_file()] == []
