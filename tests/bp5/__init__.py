"""Tests of `pbio_spark.bp5`, and of the data source "bp5" without Spark."""
