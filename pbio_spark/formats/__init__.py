"""Formats: the bytes of a sender's records, and the record type that they have.

machine           machine types that records can be laid out for
body              format bodies: the bytes that describe a record type and its layout
format            `Format`: a body and its meaning
layout            record type -> format for a named machine
shape             what formats share that differ only in their names
evolve            a format with a transform to an older one
record_json       record types as JSON, with Spark's type names (`spark_names`) too
arrow             record types <-> the schemas of Arrow and Spark
merge             the union of versions of a record type
store             format stores: memory, a folder
chosen            `FILE#NAME` -> the format that it names
formats_to_graph  formats and their transforms -> the graph that MaxMatch walks
"""

from pbio_spark.formats.format import FieldLayout, Format, OptInfo, StructLayout, check_format

__all__ = ["Format", "StructLayout", "FieldLayout", "OptInfo", "check_format"]
