"""Token counts, embedders, cross-encoders and language models."""
