"""E-code, the small C in which receivers of events say what they want done at the source."""
