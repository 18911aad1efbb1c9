"""docs/reference/api.md: what `import pbio_spark as pbio` gives, from signatures and docstrings."""

from __future__ import annotations

import inspect
import re
import types

import pbio_spark as pbio

GROUPS = {
    "Record types": (
        *("record", "parse_record", "record_to_json", "Record", "Struct", "Field", "Array", "Pointer", "Ref", "Notes"),
        *("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "FLOAT32", "FLOAT64"),
        *("CHAR", "BOOLEAN", "ENUMERATION", "STRING"),
    ),
    "Formats": ("Format", "evolve", "Machine", "MACHINES", "FolderStore", "MemoryStore", "formats_to_graph"),
    "Records and files without Spark": (
        *("encode", "decode", "read", "read_arrow", "read_batches", "read_formats", "open_writer", "RecordWriter"),
        "FileWriter",
    ),
    "Spark": ("spark_session", "from_pbio", "to_pbio", "schema_of_pbio", "format_id_of", "dispatch"),
    "Kafka": ("KafkaStore", "PbioSerializer", "PbioDeserializer"),
    "Event channels": (
        *("ChannelSpace", "Channel", "Submission", "Columns", "Subscription", "Event", "Position"),
        *("Modulator", "EagerSubscription", "Source", "DerivationReport", "DerivationVersion"),
        "derivations_to_arrow",
        "NotDeliveredError",
    ),
    "Gateways": ("GridProducer", "GridConsumer", "GridEvent", "ThinGateway", "ThinSender", "ThinSettings"),
    "Errors, pictures, tests": ("PbioError", "explore", "testing"),
}
"""The names in the order of the page; together they are `pbio_spark.__all__`."""

MADE_BY_OTHERS = (
    *(pbio.Format, pbio.ChannelSpace, pbio.Channel, pbio.Subscription, pbio.EagerSubscription, pbio.Event),
    *(pbio.RecordWriter, pbio.DerivationReport, pbio.DerivationVersion, pbio.GridConsumer, pbio.GridEvent),
)
"""Classes that no program calls."""


def api() -> str:
    """The page."""
    missing = set(pbio.__all__) ^ {name for names in GROUPS.values() for name in names}
    assert not missing, f"docs/reference/generate_api.py and pbio_spark.__all__ differ in {missing}"
    lines = [
        "# What `import pbio_spark as pbio` gives",
        "",
        "Each name is loaded on first use. Calls such as `help(pbio.read_batches)` show all arguments and errors.",
        "[`ecode`](../programs/e-code.md) has E-code itself, and [`morph`](../programs/matching.md) has MaxMatch.",
    ]
    for title, names in GROUPS.items():
        lines += ["", f"## {title}"]
        constants = [name for name in names if name.isupper()]
        for name in names:
            if name not in constants:
                lines += ["", *_entry(name)]
        if constants:
            lines += ["", f"`{'`, `'.join(constants)}`"]
    return "\n".join(lines) + "\n"


def _entry(name: str) -> list[str]:
    value = getattr(pbio, name)
    if isinstance(value, types.ModuleType):
        members = [(member, getattr(value, member)) for member in value.__all__]
        rooms = [f"`{member}`" for member, held in members if isinstance(held, types.ModuleType)]
        listed = [f"- `{member}{_signature(held)}`: {_paragraph(held)}" for member, held in members if callable(held)]
        return [f"### `pbio.{name}`", "", _paragraph(value), "", *listed, *rooms]
    lines = [f"### `pbio.{name}{_signature(value)}`", "", _paragraph(value)]
    if isinstance(value, type):
        methods = [f"- `{names.replace(', ', '`, `')}`: {said}" for names, said in _attributes(value)]
        for member, held in vars(value).items():
            if member.startswith("_") or not (said := _paragraph(held)):
                continue
            if isinstance(held, property):
                methods.append(f"- `{member}`: {said}")
            elif callable(getattr(value, member)):
                methods.append(f"- `{member}{_signature(getattr(value, member))}`: {said}")
        lines += ["", *methods] if methods else []
    return lines


def _signature(value: object) -> str:
    """The signature without the types, which `help` shows."""
    if isinstance(value, type) and issubclass(value, Exception):
        return ""
    if value in MADE_BY_OTHERS:
        return ""
    try:
        signature = inspect.signature(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""
    shown = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
        if parameter.name not in ("self", "cls") and not parameter.name.startswith("_")
    ]
    text = str(signature.replace(parameters=shown, return_annotation=inspect.Signature.empty))
    return re.sub(r"<[^<>]*>|\w+\(\)", "...", text) if "<" in text else text


def _attributes(value: type) -> list[tuple[str, str]]:
    """The names and descriptions in the section "Attributes" of a class's docstring."""
    section = (inspect.getdoc(value) or "").partition("\nAttributes:\n")[2].partition("\n\n")[0]
    return [
        (names, " ".join(said.split()))
        for names, said in re.findall(r"^    (\w[\w, ]*): (.*(?:\n     .*)*)", section, re.MULTILINE)
    ]


def _paragraph(value: object) -> str:
    """The first paragraph of the docstring of what is documented, as one line."""
    held = value.__func__ if isinstance(value, classmethod | staticmethod) else value
    if isinstance(held, type) and held.__doc__ and held.__doc__.startswith(f"{held.__name__}("):
        return ""  # what dataclasses write
    said = inspect.getdoc(held) if isinstance(held, type | types.FunctionType | types.ModuleType | property) else None
    first, _, rest = (said or "").partition("\n\n")
    if first.endswith(":") and isinstance(held, types.ModuleType):
        first += " " + rest.partition("\n\n")[0]
    return " ".join(first.split())
