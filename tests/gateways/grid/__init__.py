"""Grid events."""
