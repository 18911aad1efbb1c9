"""`formats_to_graph`: formats and the transforms they carry as a graph for MaxMatch; the keys are hexadecimal IDs.

>>> from ecode.types import INT32, Field, record
>>> from pbio_spark.formats.evolve import evolve
>>> from pbio_spark.formats.layout import record_to_format
>>> old = record_to_format(record("load", [Field("n", INT32)]))
>>> new = evolve(old, record_to_format(record("load", [Field("m", INT32)])), "{ old.n = new.m; }")
>>> graph = formats_to_graph([old, new])
>>> list(graph.routes(new.id.hex())) == [new.id.hex(), old.id.hex()]
True
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from morph import Problem, Transform, TransformGraph, lineage
from morph.evolution.lineages import Relative
from pbio_spark.errors import PbioError
from pbio_spark.formats.format import Format
from pbio_spark.formats.store import FormatStore


def carries_transforms(form: Format) -> bool:
    """Whether a format carries transforms, valid or not: the graph says what is wrong with them."""
    try:
        return bool(form.transforms)
    except PbioError:
        return True


def formats_to_graph(
    formats: Iterable[Format], store: FormatStore | None = None, missing: list[bytes] | None = None
) -> TransformGraph:
    """The graph of some formats and of the older formats that they lead to, if the store has them.

    Args:
        missing: receives the IDs of formats that the store lacks.

    Transforms that cannot be read are problems of the graph. Raises what the store raises, and MORPH_FORMAT_CONFLICT.
    """
    graph = TransformGraph()
    waiting = list(formats)
    met = {format_.id for format_ in waiting}
    for format_ in waiting:  # grows during the loop
        key = format_.id.hex()
        graph.add_format(key, format_.record)
        try:
            transforms = format_.transforms
        except PbioError as error:
            graph.report(Problem(error.code, error.reason, key))
            continue
        for transform in transforms:
            graph.add_transform(Transform(key, transform.prior.hex(), transform.ecode))
            if store is not None and transform.prior not in met:
                met.add(transform.prior)
                prior = store.get(transform.prior)
                waiting += [prior] if prior is not None else []
                if prior is None and missing is not None:
                    missing.append(transform.prior)
    return graph


@lru_cache(maxsize=8)
def versions(formats: tuple[Format, ...]) -> tuple[Relative, ...]:
    """The record types of formats with their versions, as `pbio lineage` shows them."""
    return tuple(one for one in lineage(formats_to_graph(formats)).types if one.name)
