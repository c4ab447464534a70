"""The Open Inference Protocol V2 with Triton's extensions: its messages, made from proto/, and its datatypes."""
