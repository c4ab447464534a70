"""The pictures of a schedule."""
