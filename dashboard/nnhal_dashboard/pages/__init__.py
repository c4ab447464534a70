"""The pages, a folder for each: what it shows, its templates, and what its forms do."""
