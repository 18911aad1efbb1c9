"""Formats: what a sender's records look like, byte for byte, and which record type they have.

machine           machine types that records can be laid out for
body              format bodies: the bytes that describe a record type and its layout
format            `Format`, which holds a body and what it means
layout            record type -> format for a named machine
evolve            a format with a transform to an older one
record_json       record types as JSON, with Spark's type names (`spark_names`) too
arrow             record types <-> the schemas of Arrow and Spark
merge             the union of versions of a record type
store             format stores: memory, a folder
chosen            `FILE#NAME` -> the format that is meant
formats_to_graph  formats and their transforms -> the graph that MaxMatch walks
"""

from pbio_spark.formats.format import FieldLayout, Format, OptInfo, StructLayout

__all__ = ["Format", "StructLayout", "FieldLayout", "OptInfo"]
