"""A compiler that cascades: from a HAL model and a budget of bytes to a command stream. No process and no wire."""
