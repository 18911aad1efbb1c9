"""`evolve`: a format that carries a transform to an older one.

>>> from ecode.types import INT32, Field, record
>>> from pbio_spark.formats.layout import record_to_format
>>> old = record_to_format(record("load", [Field("average", INT32)]))
>>> new = record_to_format(record("load", [Field("total", INT32), Field("cpus", INT32)]))
>>> new = evolve(old, new, "{ old.average = new.total / new.cpus; }")
>>> new.transforms[0].prior == old.id
True
"""

from __future__ import annotations

from dataclasses import replace

from morph import MorphError, compile_transform
from pbio_spark.errors import PbioError
from pbio_spark.formats.body.layouts import layouts_to_body
from pbio_spark.formats.body.opt_info import EVOL, FormatTransform, transform_to_opt_info
from pbio_spark.formats.format import Format, check_format


def evolve(old: Format, new: Format, ecode: str) -> Format:
    """The new format with a transform to the old one: E-code that fills the record `old` from the record `new`.

    The transform is part of the body, so the format has another ID than `new`. It does not contain the old body: a
    reader must find that elsewhere. Chain calls to add transforms to several older formats.

    Raises:
        MorphError: MORPH_BAD_TRANSFORM with all mistakes of the program; MORPH_TRANSFORMS_DISAGREE if `new` already
            carries a transform to `old`.
        PbioError: PBIO_BAD_OPT_INFO if the text cannot be stored.
    """
    check_format(old)
    check_format(new)
    if not isinstance(ecode, str):
        hint = 'write it in E-code, as a string: "{ old.load = new.user + new.system; }"'
        raise PbioError("PBIO_BAD_PROGRAM", f"a transform cannot be of type {type(ecode).__name__}", hint=hint)
    if "\0" in ecode:
        raise PbioError(
            "PBIO_BAD_OPT_INFO",
            "the text of a transform contains a NUL, which would end it in a body",
            hint="leave the character out",
        )
    if any(transform.prior == old.id for transform in new.transforms):
        raise MorphError(
            "MORPH_TRANSFORMS_DISAGREE",
            f"the format already carries a transform to {old.id.hex()}",
            new.name,
            "start from the format without transforms",
        )
    compile_transform(ecode, new.record, old.record)
    top, *inner = new.layouts.structs
    # FFS reports only the first block of a version-0 structure, so the blocks that FFS understands come first.
    ffs = [block for block in top.opt_info if block.type == EVOL]
    ours = [block for block in top.opt_info if block.type != EVOL]
    block = transform_to_opt_info(FormatTransform(old.id, ecode))
    structs = (replace(top, opt_info=(*ffs, block, *ours)), *inner)
    return Format.from_body(layouts_to_body(replace(new.layouts, structs=structs)))
