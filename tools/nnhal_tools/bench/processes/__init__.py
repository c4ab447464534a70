"""What processes cost, as the kernel reports it: processor time, wake-ups and system calls. Needs no root."""

from nnhal_tools.bench.processes.system_calls import SystemCalls, TracingRefusedError, counting
from nnhal_tools.bench.processes.threads import ThreadUsage, process_ns, threads_of
from nnhal_tools.bench.processes.tree import family

__all__ = ["SystemCalls", "ThreadUsage", "TracingRefusedError", "counting", "family", "process_ns", "threads_of"]
