"""Why events do not reach the type of their channel, as an error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ecode.types import Field, Record, references
from morph import Rejection, field_fits
from morph.evolution.edits import Insert, Move, Update, edit_script
from morph.explain import FIELDS_SHOWN
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format


def unreached_to_error(route: Rejection, form: Format, own: Format, channel: str) -> PbioError:
    """PBIO_REJECTED, for events of a format that do not reach the channel's type."""
    reason, remedy = _lacking(form, own, channel)
    return PbioError(
        "PBIO_REJECTED",
        f"{reason}\n{replace(route, hint='').explain()}",
        format=f"{form.name} ({form.id.hex()})",
        hint=f"{remedy}, or add a transform to the channel's format (pbio_spark.formats.evolve)",
    )


def _lacking(form: Format, own: Format, channel: str) -> tuple[str, str]:
    """Why events of a format do not reach a channel, in one sentence, and a remedy."""
    hidden = {field.name for struct in own.record.structs for field in struct.fields if field.notes.hidden}
    edits = edit_script(form.record, own.record).edits
    absent = [
        (edit.path if isinstance(edit, Insert) else edit.to, edit.type)
        for edit in edits
        if isinstance(edit, Insert | Move)
    ]
    said = [f"{path} {type_}" for path, type_ in absent if path.rpartition(".")[2] not in hidden]
    lacking = f"lack {_some(said)}, which the channel {channel!r} has"
    updates = [edit for edit in edits if isinstance(edit, Update)]
    others = [text for edit in updates if (text := _misfit(edit, form.record, own.record))]
    differing = f"have fields of other types than the channel {channel!r}" + (f": {_some(others)}" if others else "")
    if said and others:
        return (
            f"the events {lacking}, and {differing}",
            "add the missing fields and give the others the channel's types",
        )
    if said:
        return f"the events {lacking}", "add the missing fields"
    return f"the events {differing}", "give the fields the channel's types"


def _some(said: Sequence[str]) -> str:
    more = f" and {len(said) - FIELDS_SHOWN} more" if len(said) > FIELDS_SHOWN else ""
    return f"{', '.join(said[:FIELDS_SHOWN])}{more}"


def _misfit(edit: Update, mine: Record, theirs: Record) -> str:
    """A field whose values do not fit the channel's, with both types; empty if they do."""
    has, wants = Field(edit.path, edit.old), Field(edit.path, edit.new)
    if "." not in edit.path:
        has, wants = (
            next(field for field in record.structs[0].fields if field.name == edit.path) for record in (mine, theirs)
        )
    structures = [any(True for _ in references(field.type)) for field in (has, wants)]
    if all(structures) or (not any(structures) and field_fits(has, wants)):
        return ""
    return f"{edit.path} is {_type_text(has)} instead of {_type_text(wants)}"


def _type_text(field: Field) -> str:
    notes = [note for note in (field.notes.logical, field.notes.units) if note]
    return f"{field.type} ({', '.join(notes)})" if notes else str(field.type)
