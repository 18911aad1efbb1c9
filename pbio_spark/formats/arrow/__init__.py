"""Record types <-> the schemas of Arrow and Spark.

    schema               record type -> columns and Arrow schema: the table of types
    names                the field that a name means, and the array that a count means
    mapping              record type x Arrow schema -> which field fills which column, by which rule
    arrow_to_record      Arrow schema -> record type, by the same table
    written              the same for what is written, under names that FFS programs can read
    arrow_to_ddl         Arrow schema -> Spark's DDL and JSON
    values               one record as it is stored <-> as tables show it, in plain Python
    given                which values from Python Arrow would take for others
    python_rows          batches -> rows of Python values, and what becomes of a value that Python has nothing for
    spark_json_to_arrow  Spark schema, as its JSON -> Arrow's

Nothing else in `formats` imports pyarrow.
"""
