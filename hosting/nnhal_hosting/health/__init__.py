"""grpc.health.v1 of a process."""
