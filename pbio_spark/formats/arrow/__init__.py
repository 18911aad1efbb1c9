"""Record types <-> the schemas of Arrow and Spark.

    schema               record type -> columns and Arrow schema: the table of types
    names                the field that a name means, and the array that a count means
    mapping              record type x Arrow schema -> which field fills which column, by which rule
    arrow_to_record      Arrow schema -> record type, by the same table
    written              the same for writing, with names that FFS programs can read
    arrow_to_ddl         Arrow schema -> Spark's DDL and JSON
    values               one record as it is stored <-> as tables show it, in plain Python
    given                Python values that Arrow would silently change
    python_rows          batches -> rows of Python values, and errors for values that Python cannot represent
    spark_json_to_arrow  the JSON of a Spark schema -> Arrow schema

Nothing else in `formats` imports pyarrow.
"""
