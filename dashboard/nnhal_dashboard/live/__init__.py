"""Live values: parts of pages that are rendered again each second while somebody looks, and sent if they changed."""
