"""Parts that all pages share: rendering, forms, errors, signing in, and files."""
