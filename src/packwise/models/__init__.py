"""Tokens, embedder, cross-encoder, language model: one protocol and one default each."""
