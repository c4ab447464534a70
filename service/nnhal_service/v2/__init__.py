"""The Open Inference Protocol V2: its HTTP and gRPC servers, and what they share."""
