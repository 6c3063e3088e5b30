"""Documents in: one module a format, one walk for folders."""
