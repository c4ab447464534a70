"""The native service: inference by pool handles over gRPC, the link and channels."""
