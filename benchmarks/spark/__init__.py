"""Scans, writes and selections in Spark, and where their time goes."""
