"""Packwise in other frameworks: one thin module per library, which must be installed."""
