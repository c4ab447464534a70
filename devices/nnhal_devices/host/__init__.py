"""The process around any driver: gRPC and the link, sessions, validation, executions, bursts, scheduling."""
