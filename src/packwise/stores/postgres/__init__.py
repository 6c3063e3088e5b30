"""PostgreSQL: passages behind the Store protocol, and knowledge nodes of many tenants."""
