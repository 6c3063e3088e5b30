"""The pack: a store in one folder."""
