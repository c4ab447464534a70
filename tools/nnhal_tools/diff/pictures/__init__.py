"""The pictures of a comparison."""
