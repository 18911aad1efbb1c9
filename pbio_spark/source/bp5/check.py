"""Everything that reading a dataset shows to be wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa

from pbio_spark.bp5.folder import DatasetFolder
from pbio_spark.bp5.meta.index import Step
from pbio_spark.bp5.rows.contents import content_to_column, read_content
from pbio_spark.bp5.rows.survey import Survey, columns_of, survey
from pbio_spark.bp5.rows.wanted import ColumnOf, DatasetPart, Wanted
from pbio_spark.errors import PbioError
from pbio_spark.source.bp5.scan import Scanned


def problems(one: Scanned, each: Callable[[Sequence[Step]], Iterable[Step]]) -> Iterator[PbioError]:
    """Read every variable of every step, and report what fails.

    Args:
        each: passes the steps through, for a progress bar.
    """
    dataset = one.dataset
    yield from (error for error in (dataset.index.damage, dataset.formats.damage) if error is not None)
    steps = dataset.steps
    flatten = dataset.index.header.flatten
    with DatasetFolder(dataset.path) as folder:
        for step in each(steps[:1] if flatten else steps):
            some = steps if flatten else (step,)
            found = survey(dataset, folder, some, strict=False)
            yield from {str(error): error for error in found.errors}.values()
            if not found.errors:
                yield from _of_step(found, folder, some)


def _of_step(found: Survey, folder: DatasetFolder, steps: Sequence[Step]) -> Iterator[PbioError]:
    located = found.dataset.locate(folder, steps)
    for name in found.types:
        try:
            (field,) = columns_of([found], [name], "decimal", scaled=False)
            wanted = Wanted(pa.schema([field]), (ColumnOf(field.name, name),))
            content = read_content(found.dataset, located, name)
            content_to_column(
                content, wanted.columns[0], wanted, DatasetPart(found.dataset, tuple(steps)), folder, steps
            )
        except PbioError as error:
            yield error
