"""PBIO/FFS record streams in Spark."""
