"""The models: what is served and by which plan, loading and unloading, and planning again with other pins."""
