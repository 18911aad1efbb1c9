"""E-code, and finding and running the way from one format to another."""
