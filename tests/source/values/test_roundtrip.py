"""Every Spark type of DESIGN section 5 is written and read back equal, on every kind of machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NUMBERS = """select * from values
    (tinyint(-128), smallint(-32768), int(-2147483648), -9223372036854775808L, float('NaN'), double('-Infinity'), true,
     -99999999.99BD, cast('-99999999999999999999999999.9999999999' as decimal(36,10)),
     date'0001-01-01', timestamp'1900-01-01 00:00:00', timestamp_ntz'9999-12-31 23:59:59.999999'),
    (tinyint(127), smallint(32767), int(2147483647), 9223372036854775807L, float('1.5'), -0.0D, false,
     0.01BD, cast('0.0000000001' as decimal(36,10)),
     date'9999-12-31', timestamp'2026-01-31 12:34:56.789012', timestamp_ntz'1582-10-04 00:00:00')
    as t(i1, i2, i4, i8, f4, f8, b, small, large, d, t, local)"""

TEXTS = """select * from values
    ('one', binary(X'00ff00'), array(1, 2, 3), array('a', null, ''), array(array(1, 2), array()), map('k', 1.5D)),
    (null, binary(''), array(), array(), array(), map()),
    ('', binary(X'41'), array(-1), array(null), array(array()), map('', -1D, 'ü', 0D)),
    ('größer \U0001f600', binary(repeat('x', 1000)), sequence(1, 500), array('z'), array(array(7)), map('a', 1D))
    as t(s, raw, a, texts, nested, m)"""

STRUCTS = """select * from values
    (named_struct('n', 1, 's', 'x', 'inner', named_struct('d', date'2026-01-31')),
     array(named_struct('n', 1, 'v', array(1.5D)), named_struct('n', 2, 'v', array())),
     map('k', named_struct('t', timestamp'2026-01-31 00:00:00', 'raw', binary('x'))),
     array(array(array(1), array()), array(array(2, 3)))),
    (null, array(), map(), array()),
    (named_struct('n', 2, 's', null, 'inner', null), array(named_struct('n', 3, 'v', array(0D, 1D))), map(),
     array(array(), array(array(4))))
    as t(st, structs, deep, cube)"""

ODD_NAMES = (
    """select 1 as `integer field`, 'x' as `größe`, array(1, 2) as `a[1]`, array(3) as `b) `, map('k', 1) as `*`"""
)


@pytest.mark.parametrize("machine", ["native", "be32"])
@pytest.mark.parametrize("query", [NUMBERS, TEXTS, STRUCTS, ODD_NAMES], ids=["numbers", "texts", "structs", "names"])
def test_what_is_written_reads_back_equal(spark: SparkSession, tmp_path: Path, query: str, machine: str) -> None:
    frame = spark.sql(query).coalesce(1)
    frame.write.format("pbio").mode("append").option("machine", machine).save(str(tmp_path))
    inferred = spark.read.format("pbio").load(str(tmp_path))
    assert inferred.schema.simpleString() == frame.schema.simpleString()
    found = spark.read.format("pbio").schema(frame.schema).load(str(tmp_path))
    assert_df_equality(found, frame, allow_nan_equality=True)


def test_folders_become_columns_again(spark: SparkSession, tmp_path: Path) -> None:
    rows = [(1, 10, "x/y"), (2, 20, None), (3, 10, "z")]
    frame = spark.createDataFrame(rows, "n int, k int, s string")
    frame.write.format("pbio").mode("append").option("partitionColumns", "k,s").save(str(tmp_path))
    found = spark.read.format("pbio").load(str(tmp_path))
    assert found.columns == ["n", "k", "s"]
    assert_df_equality(found, frame, ignore_nullable=True, ignore_row_order=True)
    typed = spark.read.format("pbio").schema("K string, n bigint").load(str(tmp_path))
    assert sorted(map(tuple, typed.collect())) == [("10", 1), ("10", 3), ("20", 2)]
