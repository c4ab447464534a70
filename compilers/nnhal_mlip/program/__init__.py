"""What the accelerator executes: its program, and the binary that holds it."""
