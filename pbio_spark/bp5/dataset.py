"""`Dataset`: a BP5 folder, its index and formats parsed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pbio_spark.bp5.folder import DatasetFolder
from pbio_spark.bp5.meta import formats as mmd
from pbio_spark.bp5.meta import index as idx
from pbio_spark.bp5.meta import metadata as md
from pbio_spark.bp5.meta.attributes import DatasetAttribute, parse_attributes
from pbio_spark.bp5.meta.blocks import Blocks, read_blocks
from pbio_spark.bp5.meta.formats import Formats, parse_formats
from pbio_spark.bp5.meta.index import Step, StepIndex, parse_index
from pbio_spark.bp5.meta.metadata import Located, locate
from pbio_spark.bp5.meta.variables import NUMBERS, STRUCTURE, Variable
from pbio_spark.bp5.trouble import bad, placed
from pbio_spark.errors import PbioError


@dataclass
class Dataset:
    """A BP5 folder: where its steps are, and what describes them.

    Attributes:
        path: of the folder.
    """

    path: str
    index: StepIndex
    formats: Formats

    @property
    def steps(self) -> tuple[Step, ...]:
        return self.index.steps

    @property
    def order(self) -> str:
        return self.index.header.order

    @property
    def column_major(self) -> bool:
        return self.index.header.column_major

    def without_steps(self) -> Dataset:
        """The dataset for a task, which gets its steps separately."""
        return replace(self, index=replace(self.index, steps=()))

    def locate(self, folder: DatasetFolder, steps: Sequence[Step]) -> Located:
        """The metadata blocks of some steps. Raises what `metadata.locate` raises."""
        return locate(folder, steps, self.formats, self.index.header)

    def blocks(self, located: Located, name: str, dimensions: int | None = None) -> Blocks | None:
        """The blocks of an array variable. Raises what `read_blocks` raises."""
        return read_blocks(located, name, dimensions, column_major=self.column_major)

    def kind(self, variable: Variable) -> np.dtype[Any]:
        """numpy's type of a variable's elements, in the writer's byte order. Raises PBIO_UNSUPPORTED_BP5."""
        if variable.type == STRUCTURE:
            from pbio_spark.bp5.data.structures import structure_to_dtype

            return structure_to_dtype(self.formats.get(variable.structure), variable)
        name = NUMBERS[variable.type]
        return np.dtype(name if name.startswith("V") else self.order + name)

    def attributes(
        self, folder: DatasetFolder, steps: Sequence[Step], known: Mapping[str, DatasetAttribute] | None = None
    ) -> dict[str, DatasetAttribute]:
        """The attributes after these steps; `known` are those before them. Raises what `attribute_changes` raises."""
        found = dict(known or {})
        for _, one in self.attribute_changes(folder, steps):
            found[one.name] = one
        return found

    def attribute_changes(
        self, folder: DatasetFolder, steps: Sequence[Step]
    ) -> Iterator[tuple[Step, DatasetAttribute]]:
        """Each attribute that steps define or change, in order, and the step.

        Raises what `attribute_blocks` and `parse_attributes` raise.
        """
        file = folder.file(md.NAME)
        for step, writer, block in md.attribute_blocks(folder, steps, self.index.header):
            try:
                yield from ((step, one) for one in parse_attributes(block, self.formats, self.order, file))
            except PbioError as error:
                error.reason = placed(f"attributes: {error.reason}", step.number, writer)
                raise error.at(file=file) from None


def open_dataset(folder: DatasetFolder) -> Dataset:
    """The dataset of a folder.

    md.idx is read first: the other files already have what it names. Raises PBIO_NOT_BP5, PBIO_BAD_BP5.
    """
    data = folder.all_of(idx.NAME)
    if data is None:
        raise PbioError(
            "PBIO_NOT_BP5",
            "not a BP5 folder: md.idx is missing",
            file=folder.path,
            hint="give the path of the folder that ADIOS2 wrote, such as run.bp",
        )
    index = parse_index(data, folder.file(idx.NAME))
    described = folder.all_of(mmd.NAME)
    if described is None:
        missing = bad("mmd.0 is missing", file=folder.file(mmd.NAME))
        return Dataset(folder.path, index, Formats(folder.file(mmd.NAME), {}, damage=missing))
    return Dataset(folder.path, index, parse_formats(described, index.header.order, folder.file(mmd.NAME)))
