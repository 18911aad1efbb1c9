"""`Encoders`: the encoder of each format, compiled once for all formats of equal shape."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pbio_spark.columns.encode.encoder import Encoded, Encoder, format_to_encoder
from pbio_spark.columns.encode.null_value import NullValue
from pbio_spark.formats import Format
from pbio_spark.formats.shape import Shape, format_to_shape


class Encoders:
    """Encoders of items of a file. Pickles with what it compiled, and with the shapes that it found."""

    def __init__(self) -> None:
        self._shapes: dict[Shape, int] = {}
        self._shape_of: dict[Format, int] = {}
        self._known: dict[tuple[int, pa.Schema, NullValue | None], Encoder] = {}
        self._of: dict[tuple[Format, pa.Schema, NullValue | None], Encoder] = {}

    def __len__(self) -> int:
        """The number of encoders that were compiled."""
        return len(self._known)

    def shape(self, form: Format) -> int:
        """A number that only formats of equal shape share."""
        number = self._shape_of.get(form)
        if number is None:
            number = self._shapes.setdefault(format_to_shape(form), len(self._shapes))
            self._shape_of[form] = number
        return number

    def find(self, form: Format, schema: pa.Schema, null_value: NullValue | None) -> Encoder:
        """The encoder of a format. Raises what `format_to_encoder` and `Encoder.checked` raise."""
        key = form, schema, null_value
        found = self._of.get(key)
        if found is None:
            found = self._of[key] = self._compiled(form, schema, null_value).like(form)
        return found

    def encode(
        self,
        batch: pa.RecordBatch,
        formats: Sequence[Format],
        counts: npt.NDArray[np.int64],
        null_value: NullValue | None,
    ) -> Encoded:
        """The records of a batch, in formats of equal shape. Arguments as for `Encoder.encode_as`.

        Raises what `find` and `Encoder.encode_into` raise, whose messages name any of the formats.
        """
        return self._compiled(formats[0], batch.schema, null_value).encode_as(batch, formats, counts)

    def _compiled(self, form: Format, schema: pa.Schema, null_value: NullValue | None) -> Encoder:
        """An encoder of a format of equal shape."""
        key = self.shape(form), schema, null_value
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = format_to_encoder(form, schema, null_value=null_value, wrap=True).checked()
        return found
