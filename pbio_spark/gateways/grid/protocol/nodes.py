"""XML -> `XmlElement`s, by expat, and back. What a Grid message may not hold is refused here (grid-events 3)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from xml.parsers.expat import ExpatError, ParserCreate, errors
from xml.sax.saxutils import escape, quoteattr

from pbio_spark.errors import PbioError

DEEPEST = 64
"""How deep elements may be nested: record types end at 60."""

MOST_NODES = 1 << 20
"""How many elements and attributes a message may have."""

_PIECE = 1 << 16
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NAME = re.compile(r"[^\W\d][\w.\-\u00b7]*")


@dataclass(frozen=True, slots=True)
class XmlElement:
    """An element.

    Attributes:
        name, namespace: of the element; an empty name space is none.
        text: all characters that are directly in it, in one.
        attributes: by name, in the order in which they came; `{namespace}name` for one of a name space.
        children: its elements.
    """

    name: str
    namespace: str = ""
    text: str = ""
    attributes: tuple[tuple[str, str], ...] = ()
    children: tuple[XmlElement, ...] = ()

    def get(self, attribute: str) -> str | None:
        """The value of an attribute; None if it is not there."""
        return next((value for name, value in self.attributes if name == attribute), None)

    def __str__(self) -> str:
        return f"{{{self.namespace}}}{self.name}" if self.namespace else self.name


@dataclass(slots=True)
class _Open:
    """An element whose end has not come."""

    name: str
    attributes: dict[str, str]
    text: list[str] = field(default_factory=list)
    children: list[XmlElement] = field(default_factory=list)


def parse(message: bytes) -> XmlElement:
    """The root element of a message.

    Raises:
        PbioError: PBIO_BAD_MESSAGE for what is not XML with name spaces, or has a document type, entities or processing
            instructions; PBIO_LIMIT for what is nested too deeply or has too many elements. `offset` is in the message.
    """
    builder = _Builder()
    parser: Any = ParserCreate(namespace_separator="}")
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = _refusing("a document type")
    parser.EntityDeclHandler = _refusing("an entity")
    parser.ProcessingInstructionHandler = _refusing("a processing instruction")
    try:
        for at in range(0, len(message), _PIECE):
            parser.Parse(message[at : at + _PIECE], False)
        parser.Parse(b"", True)
    except ExpatError as error:
        reason = errors.messages.get(error.code, "unknown error")
        raise PbioError(
            "PBIO_BAD_MESSAGE",
            f"a message is not XML: {reason} in line {error.lineno}, column {error.offset + 1}",
            offset=max(0, parser.ErrorByteIndex),
        ) from None
    except (LookupError, ValueError, UnicodeError) as error:  # of encodings that Python does not know or cannot decode
        raise PbioError("PBIO_BAD_MESSAGE", f"a message's encoding cannot be read: {error}") from None
    except PbioError as error:
        raise error.at(offset=max(0, parser.CurrentByteIndex)) from None
    assert builder.root is not None
    return builder.root


class _Builder:
    """The callbacks of expat."""

    def __init__(self) -> None:
        self.root: XmlElement | None = None
        self._open: list[_Open] = []
        self._left = MOST_NODES

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._left -= 1 + len(attributes)
        if self._left < 0:
            raise PbioError("PBIO_LIMIT", f"a message has more than {MOST_NODES} elements and attributes")
        if len(self._open) >= DEEPEST:
            raise PbioError("PBIO_LIMIT", f"the elements of a message are nested more than {DEEPEST} deep")
        self._open.append(_Open(name, attributes))

    def data(self, text: str) -> None:
        self._open[-1].text.append(text)

    def end(self, _: str) -> None:
        done = self._open.pop()
        namespace, _, name = done.name.rpartition("}")
        attributes = tuple((f"{{{key}" if "}" in key else key, value) for key, value in done.attributes.items())
        text = "".join(done.text)
        if done.children and not text.strip():
            text = ""
        node = XmlElement(name, namespace, text, attributes, tuple(done.children))
        if self._open:
            self._open[-1].children.append(node)
        else:
            self.root = node


def _refusing(what: str) -> Callable[..., None]:
    def refuse(*_: object) -> None:
        raise PbioError("PBIO_BAD_MESSAGE", f"a message has {what}, which the protocol does not allow")

    return refuse


def node_to_xml(node: XmlElement, outer: str | None = None) -> str:
    """An element as text.

    Args:
        outer: the default name space at its place.

    Raises PBIO_BAD_VALUE for characters that XML 1.0 cannot hold, and for names that cannot be names there.

    >>> node_to_xml(XmlElement("a", "urn:x", "1 < 2", (("units", "s"),)))
    '<a xmlns="urn:x" units="s">1 &lt; 2</a>'
    """
    check_name(node.name)
    declared = "" if node.namespace == (outer or "") else f' xmlns="{to_attribute(node.namespace)}"'
    attributes = "".join(f' {check_name(name)}="{to_attribute(value)}"' for name, value in node.attributes)
    inside = to_text(node.text) + "".join(node_to_xml(child, node.namespace) for child in node.children)
    tag = f"<{node.name}{declared}{attributes}"
    return f"{tag}>{inside}</{node.name}>" if inside else f"{tag}/>"


def to_text(text: str) -> str:
    """Characters, escaped for an element. Raises PBIO_BAD_VALUE."""
    if _FORBIDDEN.search(text):
        refuse_character(text)
    return escape(text, {"\r": "&#13;"})


def to_attribute(text: str) -> str:
    """Characters, escaped for an attribute in double quotes. Raises PBIO_BAD_VALUE."""
    if _FORBIDDEN.search(text):
        refuse_character(text)
    quoted = quoteattr(f"{text}'", {"\t": "&#9;", "\n": "&#10;", "\r": "&#13;"})
    return quoted[1:-2] if quoted[0] == '"' else quoted[1:-2].replace('"', "&quot;")


def refuse_character(text: str) -> None:
    """Raise PBIO_BAD_VALUE for the first character of a text that XML 1.0 cannot hold."""
    found = _FORBIDDEN.search(text)
    assert found is not None
    raise PbioError(
        "PBIO_BAD_VALUE",
        f"XML 1.0 cannot hold the character U+{ord(found[0]):04X}, at {found.start()} of a text",
        hint="a binary field becomes base64, which holds any bytes",
    )


def is_name(text: str) -> bool:
    """Whether a text can be the name of an element, without a prefix."""
    return _NAME.fullmatch(text) is not None


def check_name(text: str) -> str:
    """A name that can be one of an element. Raises PBIO_BAD_VALUE."""
    if not is_name(text):
        raise PbioError("PBIO_BAD_VALUE", f"{text[:80]!r} cannot be a name in XML", hint="begin with a letter or _")
    return text
