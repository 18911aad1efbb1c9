"""Lets Spark find the data source "bp5": it takes `DefaultSource` from every module called `pyspark_*`."""

from contextlib import suppress

# Spark does not guard this import: a module that fails would hide the data sources of all others too.
with suppress(ImportError):
    from pbio_spark.source.bp5.datasource import Bp5DataSource as DefaultSource  # noqa: F401
