"""A schedule as a command stream: what the NPU's command processor reads."""
