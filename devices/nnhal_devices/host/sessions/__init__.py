"""What clients have: models, prepared ones, and the sessions that own them."""
