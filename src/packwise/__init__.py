"""Packwise: documents in, the passages that carry the answer out."""

__version__ = "0.1.0"
