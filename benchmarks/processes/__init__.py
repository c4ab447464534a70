"""What processes cost, as the kernel reports it: processor time, wake-ups and system calls. Needs no root."""

from benchmarks.processes.system_calls import SystemCalls, TracingRefusedError, counting
from benchmarks.processes.threads import ThreadUsage, family, process_ns, threads_of

__all__ = ["SystemCalls", "ThreadUsage", "TracingRefusedError", "counting", "family", "process_ns", "threads_of"]
