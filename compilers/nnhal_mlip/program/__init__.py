"""Program of the accelerator: its program, and the binary that holds it."""
