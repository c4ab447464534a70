"""Sessions, and what clients have in them: models, prepared ones, and the sessions that own them."""
