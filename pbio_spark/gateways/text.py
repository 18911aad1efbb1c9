"""Addresses, and readable errors."""

from __future__ import annotations

import os
import socket
import ssl
from ipaddress import ip_address

from pbio_spark.errors import PbioError

LOOPBACK = "127.0.0.1"

LOGGED = 'the logger "pbio_spark.gateways" has the traceback'
"""What to look at after a defect."""


def one_line(error: PbioError) -> str:
    """An error in one line, for a log."""
    said = " ".join(line.strip() for line in str(error).splitlines())
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in said)


def unpublished(error: Exception) -> PbioError:
    """The error of events that a defect may have lost."""
    hint = f"see which of them are in the channel before you send them again; {LOGGED}"
    return PbioError("PBIO_OUTCOME_UNKNOWN", f"the events could not be published: {error!r}", hint=hint)


def system_reason(error: OSError) -> str:
    """What is wrong, in the system's words.

    >>> system_reason(OSError(2, "Connect call failed ('127.0.0.1', 1)")), system_reason(OSError("gone"))
    ('No such file or directory', 'gone')
    """
    # asyncio says more than the system does, and names of hosts and TLS have numbers of their own.
    if error.errno is None or isinstance(error, socket.gaierror | ssl.SSLError):
        return str(error.strerror or error) or "no answer"
    return os.strerror(error.errno)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_wildcard(host: str) -> bool:
    """Whether an address means all of a machine's, so that no one can connect to it from elsewhere.

    >>> is_wildcard("0.0.0.0"), is_wildcard("::"), is_wildcard("example.org")
    (True, True, False)
    """
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False


def is_host_name(text: str) -> bool:
    """Whether a machine can be called so, as far as the text says it; an empty one is the default.

    >>> is_host_name("node-7_a.example.org."), is_host_name("a b"), is_host_name("x" * 64)
    (True, False, False)
    """
    labels = text.removesuffix(".").split(".")
    is_printable = text.isprintable() and not any(map(str.isspace, text))
    return not text or (is_printable and len(text) <= 253 and all(0 < len(label) <= 63 for label in labels))


def address_to_text(host: str, port: int) -> str:
    """`HOST:PORT`, as `to_address` reads it: an IPv6 host is in brackets.

    >>> address_to_text("::1", 5), to_address(address_to_text("::1", 5))
    ('[::1]:5', ('::1', 5))
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def to_address(text: str) -> tuple[str, int]:
    """The host and the port of `HOST:PORT`, `:PORT` or `PORT`; without a host it is the loopback one.

    Raises PBIO_BAD_OPTION.

    >>> to_address("0.0.0.0:26100"), to_address(":0"), to_address("[::1]:5")
    (('0.0.0.0', 26100), ('127.0.0.1', 0), ('::1', 5))
    """
    host, _, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    is_host = bare == host or (host.startswith("[") and host.endswith("]"))
    if port.isascii() and port.isdecimal() and int(port[:10]) >= 1 << 16:
        raise PbioError("PBIO_BAD_OPTION", f"the port {port[:20]} is too large", hint="ports are 0 to 65535")
    if not is_host_name(bare):
        hint = "give the name or the address of a machine, such as node7.example.org"
        raise PbioError("PBIO_BAD_OPTION", f"no host can be called {bare[:80]!r}", hint=hint)
    if not (port.isascii() and port.isdecimal() and int(port) < 1 << 16 and is_host) or (":" in host and bare == host):
        raise PbioError("PBIO_BAD_OPTION", f"not an address: {text[:80]!r}", hint="an example is 127.0.0.1:26100")
    return bare or LOOPBACK, int(port)
