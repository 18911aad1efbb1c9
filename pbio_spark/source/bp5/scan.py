"""Paths -> the BP5 folders there, opened, and the wanted steps of each."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pbio_spark.bp5.dataset import Dataset, open_dataset
from pbio_spark.bp5.folder import DatasetFolder
from pbio_spark.bp5.meta.index import NAME, Step
from pbio_spark.bp5.meta.metadata import NAME as METADATA
from pbio_spark.bp5.rows.survey import Survey, survey
from pbio_spark.errors import PbioError
from pbio_spark.globs import is_glob
from pbio_spark.paths import locate
from pbio_spark.source.bp5.options import Bp5Options
from pbio_spark.source.files.listing import ListedFile, list_files

log = logging.getLogger("pbio_spark.source")


@dataclass(frozen=True, slots=True)
class Scanned:
    """A dataset found at a path.

    Attributes:
        steps: the wanted ones.
    """

    file: ListedFile
    dataset: Dataset
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class DatasetScan:
    """All datasets found; and their content, once surveyed."""

    options: Bp5Options
    found: tuple[Scanned, ...]
    surveys: tuple[Survey, ...] = ()

    @property
    def files(self) -> list[ListedFile]:
        return [one.file for one in self.found]

    def surveyed(self, *, is_stream: bool = False) -> DatasetScan:
        """The scan, surveyed; variables named by the option that no wanted step has are searched in other steps.

        Raises what `survey` raises under FAILFAST.
        """
        if self.surveys:
            return self
        strict = self.options.mode == "FAILFAST"
        surveys = []
        for one in self.found:
            with DatasetFolder(one.file.path) as folder:
                surveys.append(survey(one.dataset, folder, one.steps, strict=strict))
        if not is_stream:
            self._look_further(surveys)
        return replace(self, surveys=tuple(surveys))

    def _look_further(self, surveys: Sequence[Survey]) -> None:
        """Take the types of requested variables from other steps, if no wanted step has them."""
        there = {name.lower() for found in surveys for name in found.types}
        asked = {name.lower() for name in self.options.variables} - there
        for one, found in zip(self.found, surveys, strict=True):
            names = [name for name in one.dataset.formats.variables if name.lower() in asked]
            if names:
                with DatasetFolder(one.file.path) as folder:
                    everything = survey(one.dataset, folder, one.dataset.steps, strict=False)
                for name in filter(everything.types.__contains__, names):
                    found.types[name], found.first[name] = everything.types[name], everything.first[name]


def list_datasets(
    paths: Sequence[str], options: Bp5Options, may_be_gone: Callable[[str], bool] = lambda path: False
) -> list[ListedFile]:
    """The BP5 folders at and below paths. Raises what `list_files` raises."""
    return list_files(paths, options, may_be_gone, mark=NAME)


def scan_datasets(paths: Sequence[str], options: Bp5Options) -> DatasetScan:
    """Find datasets and parse their indexes.

    Raises what `list_files` raises; PBIO_NOT_BP5 if there is none, or one of another version; under FAILFAST also
    PBIO_BAD_BP5 for an index that is damaged among the wanted steps.
    """
    files = list_datasets(paths, options)
    if not files:
        raise _nothing(paths[0])
    found = []
    for file in files:
        one = scan_dataset(file, options)
        if one is not None:
            found.append(one)
    return DatasetScan(options, tuple(found))


def _nothing(path: str) -> PbioError:
    """The error for a path without a BP5 folder."""
    fs, plain = locate(path)
    if is_glob(path) or not fs.isfile(plain):
        hint = "a BP5 folder holds the files md.idx, mmd.0, md.0 and data.0; recursiveFileLookup enters all folders"
        return PbioError("PBIO_NOT_BP5", "no BP5 folder found here", file=path, hint=hint)
    if _OF_FOLDER.fullmatch(path.rpartition("/")[2]):
        return PbioError("PBIO_NOT_BP5", "a file of a BP5 folder", file=path, hint="name the folder that holds it")
    hint = "BP3 and HDF5 are files: read it with ADIOS2, or write it again as BP5"
    return PbioError("PBIO_NOT_BP5", "a file, but BP5 is a folder", file=path, hint=hint)


_OF_FOLDER = re.compile(r"md\.idx|mmd\.\d+|md\.\d+|data\.\d+")


def scan_dataset(file: ListedFile, options: Bp5Options) -> Scanned | None:
    """One dataset; None if it has vanished and that is allowed."""
    with DatasetFolder(file.path) as folder:
        try:
            dataset = open_dataset(folder)
        except PbioError as error:
            if error.code == "PBIO_NOT_BP5" and folder.size(NAME) is None and options.ignore_missing_files:
                log.warning("%s has vanished since it was listed", file.path)
                return None
            raise
        end = options.to_step
        damage = dataset.index.damage
        if damage is not None and (end is None or end > len(dataset.steps)):
            if options.mode == "FAILFAST":
                raise damage
            log.warning("%s", damage)
        return Scanned(file, dataset, _wanted_steps(dataset, folder, options))


def _wanted_steps(dataset: Dataset, folder: DatasetFolder, options: Bp5Options) -> tuple[Step, ...]:
    steps = complete_steps(dataset, folder)
    if dataset.index.header.flatten:
        return steps if options.from_step == 0 and options.to_step != 0 else ()
    return steps[options.from_step : options.to_step]


def complete_steps(dataset: Dataset, folder: DatasetFolder) -> tuple[Step, ...]:
    """The steps, except a last one that an active writer has not finished."""
    steps = dataset.steps
    if not (steps and dataset.index.header.is_active):
        return steps
    last = steps[-1]
    return steps[:-1] if last.position + last.length > (folder.size(METADATA) or 0) else steps
