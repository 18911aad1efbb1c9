"""From the JSON of the corpus conventions back to values, to encode them again."""

from __future__ import annotations

from typing import Any

from ecode.types import Array, Basic, Kind, Pointer, Ref, Type
from pbio_spark.formats import Format


def json_to_values(format: Format, json: dict[str, Any]) -> dict[str, Any]:  # noqa: A002
    nodes: list[dict[str, Any]] = [{} for _ in json.get("$nodes", [json])]
    types: dict[int, str] = {0: format.name}

    def value(type_: Type, given: Any) -> Any:
        match type_, given:
            case _, None:
                return None
            case Pointer(Ref(name)), {"$node": number}:
                types[number] = name
                return nodes[number]
            case Pointer(target), _:
                return value(target, given)
            case Array(element, dims), _:
                inner = Array(element, dims[1:]) if dims[1:] else element
                return [value(inner, part) for part in given]
            case Ref(name), _:
                return fields(name, given)
            case Basic(Kind.FLOAT), str():
                return float(given)
            case _, {"$bytes": image}:
                return bytes.fromhex(image)
        return given

    def fields(name: str, given: dict[str, Any]) -> dict[str, Any]:
        return {field.name: value(field.type, given[field.name]) for field in format.record.struct(name).fields}

    for number, given in enumerate(json.get("$nodes", [json])):
        nodes[number].update(fields(types[number], given))
    return nodes[0]
