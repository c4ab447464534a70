"""The gRPC services of a device process: convert, call, convert."""
