"""Qdrant as a store: ``qdrant+http://host:port/collection``."""
