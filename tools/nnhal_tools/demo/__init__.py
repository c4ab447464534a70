"""The demo: handwritten digits across two device processes."""
