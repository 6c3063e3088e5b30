"""Knowledge nodes in PostgreSQL: the adapter, its SQL, import and introspection."""
