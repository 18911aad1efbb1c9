"""Kafka's settings, as Java's clients and therefore Spark name them -> as librdkafka does.

>>> to_client({"security.protocol": "SASL_SSL", "ssl.truststore.location": "ca.pem", "ssl.truststore.type": "PEM"})
{'security.protocol': 'SASL_SSL', 'ssl.ca.location': 'ca.pem'}
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pbio_spark.errors import PbioError

_JAAS = re.compile(r"\s*[\w.]*\.(?:Plain|Scram)LoginModule\s+required\b(.*?);?\s*", re.DOTALL)
_JAAS_PART = re.compile(r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"')

_RENAMED = {
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "max.request.size": "message.max.bytes",
}
USUAL = (
    *_RENAMED,
    *("security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password", "sasl.jaas.config"),
    *("sasl.kerberos.service.name", "sasl.oauthbearer.config", "sasl.oauthbearer.token.endpoint.url"),
    *(
        "ssl.truststore.location",
        "ssl.truststore.type",
        "ssl.truststore.password",
        "ssl.ca.location",
        "ssl.key.location",
    ),
    *("ssl.keystore.location", "ssl.keystore.type", "ssl.keystore.password", "ssl.key.password"),
    *("ssl.certificate.location", "ssl.endpoint.identification.algorithm", "enable.ssl.certificate.verification"),
    *("client.id", "client.rack", "client.dns.lookup", "default.api.timeout.ms", "socket.timeout.ms", "debug"),
    *("message.max.bytes", "fetch.max.bytes", "max.partition.fetch.bytes", "compression.type", "broker.address.family"),
)
"""Suggestions for misspelled settings; the client knows more, but does not list them."""

NO_SETTINGS: Mapping[str, str] = {}

TIMEOUT = "default.api.timeout.ms"
"""The total time that a call may wait for brokers; a setting of Java's clients, not of librdkafka."""

_PREFIX = "kafka."


def to_client(settings: Mapping[str, str]) -> dict[str, str]:
    """librdkafka's settings. Settings of the same name are unchanged.

    Args:
        settings: without `kafka.` before their names.

    Raises PBIO_BAD_OPTION for settings that only Java's clients support.
    """
    given = {name.lower(): value for name, value in settings.items() if name.lower() != TIMEOUT}
    client: dict[str, str] = {}
    for name, value in given.items():
        if name == "bootstrap.servers":
            raise _refused(name, "the address of the topic names the brokers: kafka://host:port/topic")
        if name == "sasl.jaas.config":
            client |= _login(value)
        elif name == "ssl.endpoint.identification.algorithm":
            client[name] = value.lower() or "none"
        elif name.startswith(("ssl.truststore.", "ssl.keystore.")) and name not in _RENAMED:
            client |= _store(name, value, given)
        elif name.endswith((".class", ".classes")):
            raise _refused(name, "it names a Java class, but the client is librdkafka")
        else:
            client[_RENAMED.get(name, name)] = value
    return client


def timeout_of(settings: Mapping[str, str], default: float) -> float:
    """The timeout of a call, in seconds. Raises PBIO_BAD_OPTION."""
    said = next((value for name, value in settings.items() if name.lower() == TIMEOUT), None)
    if said is None:
        return default
    if not said.isdecimal() or not int(said):
        raise _refused(TIMEOUT, "it is a number of milliseconds")
    return int(said) / 1000


def _login(text: str) -> dict[str, str]:
    login = _JAAS.fullmatch(text)
    parts = dict(_JAAS_PART.findall(login[1])) if login else {}
    if not {"username", "password"} <= parts.keys():
        raise _refused(
            "sasl.jaas.config",
            'supported: ...PlainLoginModule required username="..." password="...", and '
            "ScramLoginModule; for others use the client's own kafka.sasl.username, kafka.sasl.oauthbearer.config ...",
        )
    plain = {name: re.sub(r"\\(.)", r"\1", parts[name]) for name in ("username", "password")}
    return {f"sasl.{name}": value for name, value in plain.items()}


def _store(name: str, value: str, given: Mapping[str, str]) -> dict[str, str]:
    kind, what = name.split(".")[1:3]
    type_ = given.get(f"ssl.{kind}.type", "JKS").upper()
    if what == "type":
        return {}
    if type_ == "PEM" and what == "location":
        names = ("ssl.ca.location",) if kind == "truststore" else ("ssl.certificate.location", "ssl.key.location")
        return dict.fromkeys(names, value)
    if type_ == "PEM" and what == "password":
        return {}
    if type_ == "PKCS12" and kind == "keystore" and what in ("location", "password"):
        return {name: value}
    kinds = "PEM" if kind == "truststore" else "PEM or PKCS12"
    hint = f"the client reads no {type_} files here: set kafka.ssl.{kind}.type and .location to a {kinds} file"
    raise _refused(name, hint + ", which keytool and openssl make of it")


def _refused(name: str, hint: str) -> PbioError:
    return PbioError("PBIO_BAD_OPTION", f"option '{_PREFIX}{name}' cannot be used", hint=hint)
