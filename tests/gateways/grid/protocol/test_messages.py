"""Messages and frames: as recorded, there and back, and those that are not messages."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbio_spark.errors import PbioError
from pbio_spark.gateways.grid.protocol.codec import MessageError, decode, encode
from pbio_spark.gateways.grid.protocol.frames import Frames, to_frame
from pbio_spark.gateways.grid.protocol.messages import MESSAGES as TABLE
from pbio_spark.gateways.grid.protocol.messages import PROTOCOL, Event, SubscribeReply, UnsubscribeRequest
from pbio_spark.gateways.grid.protocol.nodes import DEEPEST, XmlElement, node_to_xml, parse
from tests.gateways.grid.samples import EVENT, MESSAGES, xml

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[3] / "golden" / "grid.json").read_text(encoding="utf-8"))


def test_the_golden_set_has_every_message() -> None:
    assert set(GOLDEN) == set(MESSAGES)
    assert {type(message) for message in MESSAGES.values()} == set(TABLE)


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_is_written_as_recorded_and_read_again(name: str) -> None:
    recorded = bytes.fromhex(GOLDEN[name]["length"]) + GOLDEN[name]["xml"].encode()
    assert to_frame(encode(MESSAGES[name])) == recorded
    (message,) = Frames().feed(recorded)
    assert decode(message) == MESSAGES[name]


def test_the_papers_own_messages_are_read() -> None:
    """With its white space, and a declaration."""
    said = b"""<?xml version="1.0"?>
        <UnsubscribeRequest xmlns="http://www.gridforum.org/Performance/Protocol" requestID="9">
            <SubscriptionID>1234</SubscriptionID>
        </UnsubscribeRequest>"""
    assert decode(said) == UnsubscribeRequest("9", "1234")
    prefixed = said.replace(b"xmlns=", b"xmlns:m=").replace(b"<Un", b"<m:Un").replace(b"</Un", b"</m:Un")
    assert decode(prefixed.replace(b"<Sub", b"<m:Sub").replace(b"</Sub", b"</m:Sub")) == UnsubscribeRequest("9", "1234")
    assert decode(said.decode().replace('"1.0"', '"1.0" encoding="UTF-16"').encode("utf-16")) == decode(said)
    latin = (
        '<?xml version="1.0" encoding="ISO-8859-1"?>'
        + xml("<SubscriptionID>12</SubscriptionID><Error>é</Error>").decode()
    )
    assert decode(latin.encode("latin-1")) == Event("12", None, "é")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "not XML: no element found"),
        (b"no", "not XML: syntax error in line 1"),
        (b"<a></b>", "not XML: mismatched tag"),
        (b"<a/><b/>", "junk after document element"),
        (b"<a>\xff</a>", "not XML: not well-formed"),
        (b"<a:b/>", "unbound prefix"),
        (b"<a>&b;</a>", "undefined entity"),
        (b"<?xml version='1.0' encoding='x-none'?><a/>", "encoding"),
        (b"<!DOCTYPE a><a/>", "a document type"),
        (b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "a document type"),
        (b"<a><?php 1?></a>", "a processing instruction"),
        (b"<a/>", "an element a is not a message"),
        (b"<Event/>", "an element Event is not a message"),
        (xml("", "Evnt"), "unknown message 'Evnt'"),
        (xml(""), "Event lacks the element SubscriptionID"),
        (xml("<SubscriptionID>1</SubscriptionID>"), "Event lacks an element with an event"),
        (
            xml("<SubscriptionID>1</SubscriptionID><a xmlns='u'/><Error>x</Error>"),
            "cannot have an element with an event",
        ),
        (xml("<SubscriptionID>1</SubscriptionID><a xmlns='u'/><ErrorDetail>x</ErrorDetail>"), "element ErrorDetail"),
        (xml("<SubscriptionID>1</SubscriptionID><SubscriptionID>1</SubscriptionID>"), "SubscriptionID 2 times"),
        (xml("<SubscriptionID><a/></SubscriptionID><Error>x</Error>"), "has elements in SubscriptionID"),
        (xml("<SubscriptonID>1</SubscriptonID>"), "unknown element 'SubscriptonID'"),
        (xml("x<SubscriptionID>1</SubscriptionID>"), "has text of its own: 'x'"),
        (xml("<SubscriptionID>1</SubscriptionID>", "UnsubscribeRequest"), "lacks the attribute requestID"),
        (xml("<Return>Yes</Return>", "UnsubscribeReply", ' requestID="1"'), "'Yes' as Return"),
        (xml("", "UnsubscribeReply", ' requestID="1"'), "lacks the element Return"),
        (xml("<Return>Success</Return>", "SubscribeReply", ' requestID="1"'), "lacks the element SubscriptionID"),
        (
            xml("<Return>Failure</Return><SubscriptionID>1</SubscriptionID>", "SubscribeReply", ' requestID="1"'),
            "cannot have the element SubscriptionID",
        ),
        (xml("<Return>Success</Return><Event name='a'/>", "EventNamesReply", ' requestID="1"'), "without name"),
        (xml("<a xmlns='u'/>", "EventNamesRequest", ' requestID="1"'), "which is not of the protocol"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bytes_that_are_not_a_message_are_refused_with_the_reason(message: bytes, reason: str) -> None:
    with pytest.raises(PbioError, match="PBIO_BAD_MESSAGE") as caught:
        decode(message)
    assert reason in caught.value.reason


def test_a_refused_request_can_be_answered() -> None:
    with pytest.raises(MessageError) as caught:
        decode(xml("", "QueryRequest", ' requestID="7"'))
    assert (caught.value.name, caught.value.request_id) == ("QueryRequest", "7")


def test_deep_and_large_messages_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    fits = b"<a>" * DEEPEST + b"</a>" * DEEPEST
    assert parse(fits).name == "a"
    with pytest.raises(PbioError, match=r"PBIO_LIMIT.*nested more than 64 deep"):
        parse(b"<a>" * (1 << 20))
    monkeypatch.setattr("pbio_spark.gateways.grid.protocol.nodes.MOST_NODES", 1000)
    assert len(parse(b"<a>" + b"<b/>" * 999 + b"</a>").children) == 999
    with pytest.raises(PbioError, match=r"PBIO_LIMIT.*more than 1000 elements"):
        parse(b"<a>" + b"<b/>" * 1000 + b"</a>")


def test_a_message_that_contradicts_itself_is_not_written() -> None:
    for message, reason in (
        (SubscribeReply("1", True), "lacks the element SubscriptionID"),
        (SubscribeReply("1", False, None, "2"), "cannot have the element SubscriptionID"),
        (Event("1"), "lacks an element with an event"),
        (Event("1", EVENT, "x"), "cannot have an element with an event"),
    ):
        with pytest.raises(PbioError) as caught:
            encode(message)
        assert reason in caught.value.reason


NAMES = st.sampled_from(("a", "B1", "_c", "d-e.f", "é", "xml1"))
TEXTS = st.text(
    st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="\ufffe\uffff")
    | st.sampled_from("\t\n\r<>&'\"")
).filter(lambda text: not text or bool(text.strip()))
NODES = st.recursive(
    st.builds(
        XmlElement,
        NAMES,
        st.sampled_from(("", "u", PROTOCOL)),
        TEXTS,
        st.dictionaries(NAMES, TEXTS, max_size=2).map(lambda d: tuple(d.items())),
    ),
    lambda inner: st.builds(
        XmlElement,
        NAMES,
        st.sampled_from(("", "u", PROTOCOL)),
        TEXTS,
        st.just(()),
        st.lists(inner, max_size=3).map(tuple),
    ),
    max_leaves=8,
)


@given(NODES)
def test_elements_come_back(node: XmlElement) -> None:
    assert parse(node_to_xml(node).encode()) == node


@given(st.lists(st.binary(min_size=1, max_size=20), max_size=5), st.data())
def test_frames_come_back_however_they_are_cut(messages: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(map(to_frame, messages))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    frames, found = Frames(), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += frames.feed(stream[start:end])
    assert found == messages
    assert not frames.is_inside


def test_frames_that_lie_are_refused_before_their_bytes_come() -> None:
    with pytest.raises(PbioError, match=r"PBIO_LIMIT.*4294967295 bytes, and 100 are allowed"):
        Frames(100).feed(b"\xff\xff\xff\xff<")
    with pytest.raises(PbioError, match=r"PBIO_BAD_MESSAGE.*empty"):
        Frames().feed(struct.pack(">I", 0))
    frames = Frames(100)
    assert frames.feed(struct.pack(">I", 100) + b"a" * 99) == []
    assert frames.is_inside
    assert frames.feed(b"a") == [b"a" * 100]
