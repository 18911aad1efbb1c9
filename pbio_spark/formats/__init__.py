"""Formats: what a sender's records look like, byte for byte, and which record type they have.

In the order of the way from bytes to columns:

    machine              machine types that records can be laid out for
    lookup3              the hash behind format IDs and attribute atoms
    body                 format body <-> the layouts of its structures
    struct_layout        what a body says about one structure
    type_string          type string <-> type
    opt_info             opt-info blocks: our notes, transforms, templates
    registration         structures as declared -> as a body must store them
    layouts_to_record    layouts -> record type, refusing contradictions
    format               `Format`, which holds all of these together
    layout               record type -> format for a named machine
    store                format stores: memory, a folder
    arrow_schema         record type -> columns and Arrow schema: the table of types
    arrow_to_record      Arrow schema -> record type, by the same table
    written              the same for what is written, under names that FFS programs can read
    arrow_to_ddl         Arrow schema -> Spark's DDL and JSON
    spark_json_to_arrow  Spark schema, as its JSON -> Arrow's
    merge                the union of versions of a record type
    evolve               a format with a transform to an older one
    formats_to_graph     formats and their transforms -> the graph that MaxMatch walks

Only modules with `arrow` in their names import pyarrow, and no other module here imports them.
"""

from pbio_spark.formats.format import FieldLayout, Format, OptInfo, StructLayout

__all__ = ["Format", "StructLayout", "FieldLayout", "OptInfo"]
