"""The emulated NPU: it runs a command stream in an arena of the planned bytes, and measures what it does."""
