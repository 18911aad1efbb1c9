"""Files and records as FFS writes them, in plain Python: the oracle for everything compiled.

Reading goes down this list, writing goes up:

    window      bytes by position, of a file or a buffer
    container   the items of a file: comments, formats, records, index blocks
    resync      where reading continues after damage
    hints       index blocks and outlines: where items are, checked against them
    attributes  attribute lists, which an index attaches to records
    header      the header of a record
    images      the values of a format in memory
    decode      record bytes -> values
    encode      values -> record bytes
    writer      `FileWriter`
    foreign     what bytes may be that are not a record
    jsonl       items as lines of JSON
"""

from pbio_spark.wire.attributes import Attribute, attribute, attributes_from_bytes, attributes_to_bytes
from pbio_spark.wire.container import MAGIC, Item, ItemKind, Scanner, TruncatedError, open_file, refuse_bp_folder
from pbio_spark.wire.decode import EXPANSION_LIMIT, EXPANSION_ROOM, VALUE_COST, decode, room_of
from pbio_spark.wire.encode import encode
from pbio_spark.wire.hints.index import IndexBlock, IndexCheck, IndexEntry, read_block, read_index
from pbio_spark.wire.images import Value
from pbio_spark.wire.jsonl import items_to_json, record_to_json
from pbio_spark.wire.writer import FileWriter

__all__ = [
    "Scanner",
    "Item",
    "ItemKind",
    "TruncatedError",
    "MAGIC",
    "open_file",
    "refuse_bp_folder",
    "read_index",
    "read_block",
    "IndexBlock",
    "IndexEntry",
    "IndexCheck",
    "Attribute",
    "attribute",
    "attributes_from_bytes",
    "attributes_to_bytes",
    "decode",
    "encode",
    "Value",
    "EXPANSION_LIMIT",
    "EXPANSION_ROOM",
    "VALUE_COST",
    "room_of",
    "FileWriter",
    "items_to_json",
    "record_to_json",
]
