"""A gateway's configuration: its meaning, and refusals with hints."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from pbio_spark.errors import PbioError
from pbio_spark.gateways.config import Config, read_config, text_to_config
from pbio_spark.gateways.evpath import Stone, ThinSettings
from pbio_spark.gateways.limits import GatewayLimits
from pbio_spark.gateways.text import to_address


def test_what_is_not_said_has_its_default() -> None:
    assert text_to_config("") == Config(GatewayLimits(), None, ThinSettings())


def test_stones_are_names_of_channels_or_tables() -> None:
    text = "[evpath.stones]\n0 = 'a'\n[evpath.stones.7]\nchannel = 'b'\nsequence = 'n'\n[limits]\nidle = 2"
    config = text_to_config(text)
    assert config.evpath.stones == {0: Stone("a"), 7: Stone("b", sequence="n")}
    assert config.limits == GatewayLimits(idle=2)


REFUSED = {
    "limit = 3": ("PBIO_UNKNOWN_OPTION", "the top level of the gateway's configuration has no 'limit'", "limits"),
    "[limits]\nconections = 3": ("PBIO_UNKNOWN_OPTION", "has no 'conections'", "connections"),
    "[limits]\nconnections = '3'": ("PBIO_BAD_OPTION", "[limits] connections is '3', and must be a whole number", ""),
    "[limits]\nconnections = true": ("PBIO_BAD_OPTION", "must be a whole number", ""),
    "[limits]\nconnections = -1": ("PBIO_BAD_OPTION", "must be a whole number from 1", ""),
    "[limits]\nidle = nan": ("PBIO_BAD_OPTION", "must be a number above 0", ""),
    "limits = 3": ("PBIO_BAD_OPTION", "[limits] is not a table", "[limits]"),
    "[evpath]\nlingr = 3": ("PBIO_UNKNOWN_OPTION", "has no 'lingr'", "linger"),
    "[evpath.stone.3]\nchannel = 'n'": ("PBIO_UNKNOWN_OPTION", "[evpath] of the gateway's configuration", "stones"),
    "[grid.event.x]\na = 'b'": ("PBIO_UNKNOWN_OPTION", "has no 'event'", "events"),
    "[evpath]\nstones = 3": ("PBIO_BAD_OPTION", "[evpath.stones] is not a table", "3 ="),
    "[evpath.stones]\nthree = 'a'": ("PBIO_BAD_OPTION", "'three' is not the number of a stone", ""),
    "[evpath.stones.3]\nsequence = 'n'": ("PBIO_BAD_OPTION", "[evpath.stones.3] lacks 'channel'", ""),
    "[evpath.stones.3]\nchanel = 'n'": ("PBIO_UNKNOWN_OPTION", "has no 'chanel'", "channel"),
    "[grid]\nadvertise = '0.0.0.0:26400'": (
        "PBIO_BAD_OPTION",
        "does not say where peers find",
        "node7.example.org:26400",
    ),
    "[grid]\nadvertise = ':26400'": ("PBIO_BAD_OPTION", "does not say where peers find the gateway", "an example is"),
    "[grid]\nadvertise = 'node7'": ("PBIO_BAD_OPTION", "'node7'", "an example is"),
    "[grid]\nadvertise = 'node7:x'": ("PBIO_BAD_OPTION", "not an address: 'node7:x'", ""),
    "[grid]\nadvertize = 'node7:1'": ("PBIO_UNKNOWN_OPTION", "has no 'advertize'", "advertise"),
    "[tls]\ncertificate = 'a'": ("PBIO_BAD_OPTION", "[tls] lacks 'key'", ""),
    "[limits": ("PBIO_BAD_OPTION", "is not TOML", ""),
    "[limits]\nconnections = 0": ("PBIO_BAD_OPTION", "must be a whole number from 1", ""),
    "[limits]\nframe = 0": ("PBIO_BAD_OPTION", "must be a whole number from 1", ""),
    "[limits]\nslow = 0.0": ("PBIO_BAD_OPTION", "must be a number above 0", ""),
    "[evpath]\nformats = 0": ("PBIO_BAD_OPTION", "must be a whole number from 1", ""),
    "[evpath.stones]\n03 = 'a'\n3 = 'b'": ("PBIO_BAD_OPTION", "duplicate stone 3", "zeros"),
    "[evpath.stones]\n3 = ''": ("PBIO_BAD_OPTION", "'' cannot be the name of a channel", "1 to 200 characters"),
    "[evpath.stones.3]\nchannel = 'c'\nproducer = \"a\\u0000\"": ("PBIO_BAD_OPTION", "the name of a producer", ""),
    "[evpath.stones.3]\nchannel = 'c'\nproducer = 'a'\nproducer_field = 'b'": (
        "PBIO_BAD_OPTION",
        "has both producer and producer_field",
        "leave one",
    ),
    "[grid.events.u]\n'' = 'c'": ("PBIO_BAD_OPTION", "no event can be called ''", ""),
    "[grid.events.u]\n'a b' = 'c'": ("PBIO_BAD_OPTION", "no event can be called 'a b'", ""),
    "[grid.events.u]\na = ''": ("PBIO_BAD_OPTION", "'' cannot be the name of a channel", ""),
    "[grid]\narchive = 'a,b'": ("PBIO_BAD_OPTION", "no event can be called 'a,b'", "by blanks"),
    "[grid]\narchive = '* a'": ("PBIO_BAD_OPTION", "* stands for all", "alone"),
    "[grid]\nadvertise = 'h h:1'": ("PBIO_BAD_OPTION", "no host can be called 'h h'", "node7"),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_wrong_is_refused_with_a_hint(text: str, tmp_path: Path) -> None:
    code, reason, hint = REFUSED[text]
    path = tmp_path / "gateway.toml"
    path.write_text(text)
    with pytest.raises(PbioError) as raised:
        read_config(str(path))
    assert (raised.value.code, raised.value.file) == (code, str(path))
    assert reason in raised.value.reason
    assert hint in (raised.value.hint or "")
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_a_file_that_is_missing_or_no_text_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PbioError, match="PBIO_PATH_NOT_FOUND"):
        read_config(str(tmp_path / "gateway.toml"))
    with pytest.raises(PbioError, match="expected a file, found a folder"):
        read_config(str(tmp_path))
    (tmp_path / "gateway.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(PbioError, match="not UTF-8"):
        read_config(str(tmp_path / "gateway.toml"))


def test_certificates_that_are_missing_are_an_error() -> None:
    config = text_to_config("[tls]\ncertificate = 'no.pem'\nkey = 'no.key'")
    assert config.tls is not None
    with pytest.raises(PbioError, match=r"PBIO_BAD_OPTION.*no\.pem"):
        config.tls.context()


@pytest.mark.parametrize(
    "text",
    ["", "a b:1", "a\0b:1", "x" * 64 + ":1", "a..b:1", "host", "host:port", "host:-1", "::1:5", "[::1:5", "host:"],
)
def test_what_is_not_an_address_is_refused(text: str) -> None:
    with pytest.raises(PbioError, match="PBIO_BAD_OPTION"):
        to_address(text)


@pytest.mark.parametrize("text", ["localhost:70010", "65536", "[::1]:99999999999999999999"])
def test_a_port_that_is_too_large_is_said_to_be(text: str) -> None:
    with pytest.raises(PbioError, match=r"the port [0-9]+ is too large") as raised:
        to_address(text)
    assert raised.value.hint == "ports are 0 to 65535"


def test_a_host_without_an_address_is_named_with_the_reason() -> None:
    from pbio_spark.gateways.grid import GridConsumer

    with pytest.raises(PbioError, match=r"PBIO_NOT_LISTENING.*no-host\.invalid:1: (?!Unknown error)"):
        GridConsumer.open("no-host.invalid:1")
    with pytest.raises(PbioError, match=r"PBIO_NOT_LISTENING.*127\.0\.0\.1:1: Connection refused"):
        GridConsumer.open("127.0.0.1:1")
