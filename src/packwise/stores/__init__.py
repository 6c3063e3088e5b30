"""Where passages live: the Store protocol and its implementations."""
