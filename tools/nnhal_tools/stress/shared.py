"""Objects that the threads of a session share: each thread may use, replace or release them at any time."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from nnhal.errors import HalError, MissingMethodError
from nnhal.remote import CompilationCache, RemoteBuffer, RemoteBurst, RemoteDevice, RemoteExecution, RemoteLauncher
from nnhal.types import BufferRole, ErrorStatus
from nnhal_tools.stress.buffers import PreparedSpecimen
from nnhal_tools.stress.memory import new_file
from nnhal_tools.stress.plan import RequestPlan
from nnhal_tools.stress.specimens import Specimen


@dataclass
class SharedObjects:
    """One object of each kind, for a model that the device supports. The inputs of the request never change."""

    plan: RequestPlan
    """The request."""
    execution: RemoteExecution
    """A reusable execution of the request."""
    burst: RemoteBurst
    """A burst of the prepared model."""
    launcher: RemoteLauncher
    """A launch channel."""
    buffer: RemoteBuffer | None
    """A device buffer with roles of the prepared model; None if the device has no buffers."""
    cache: CompilationCache
    """Files of a compilation cache."""
    synchronous: bool
    """Whether the device returns no fences."""

    @property
    def prepared(self) -> PreparedSpecimen:
        """The prepared model."""
        return self.plan.prepared


def share(device: RemoteDevice, specimen: Specimen, random: Random) -> SharedObjects:
    """Create an object of every kind. Raises HalError."""
    files = device.number_of_cache_files_needed()
    cache = CompilationCache(
        tuple(new_file() for _ in range(files.num_model_cache)),
        tuple(new_file() for _ in range(files.num_data_cache)),
        random.randbytes(32),
    )
    prepared = PreparedSpecimen(specimen, device.prepare_model(specimen.model, cache=cache))
    plan = RequestPlan(prepared, random)
    execution = prepared.remote.create_reusable_execution(plan.request, plan.config)
    started = execution.execute_fenced()
    if started.fence is not None:
        started.fence.wait()
    return SharedObjects(
        plan,
        execution,
        prepared.remote.configure_execution_burst(),
        device.open_launcher(),
        allocated(device, prepared),
        cache,
        started.fence is None,
    )


def allocated(device: RemoteDevice, prepared: PreparedSpecimen) -> RemoteBuffer | None:
    """Allocate a device buffer for the first input and the output; None if the device does not offer that.

    A device without Allocate does not serve the method, or always answers GENERAL_FAILURE. Raises HalError otherwise,
    TransportError if it cannot be reached.
    """
    role = [BufferRole(0, 0)]
    try:
        return device.allocate([prepared.remote], role, role)
    except MissingMethodError:
        return None
    except HalError as error:
        if error.status == ErrorStatus.GENERAL_FAILURE:
            return None
        raise
