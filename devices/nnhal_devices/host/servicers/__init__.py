"""The gRPC services of a device process: convert a message, call, convert the result."""
