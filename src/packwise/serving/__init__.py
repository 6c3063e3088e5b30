"""Serving: the HTTP API, the OpenAI-compatible endpoint, the MCP server and the web page."""
