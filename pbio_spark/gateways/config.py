"""`gateway.toml` -> the configuration of a gateway, checked.

>>> text_to_config("[limits]\\nconnections = 10\\n[evpath.stones]\\n3 = 'readings'").limits.connections
10
"""

from __future__ import annotations

import ssl
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path

from pbio_spark.errors import PbioError
from pbio_spark.gateways.evpath.settings import ThinSettings, table_to_thin_settings
from pbio_spark.gateways.grid import GridSettings, table_to_grid_settings
from pbio_spark.gateways.limits import GatewayLimits
from pbio_spark.gateways.tables import check_keys, table_to_settings
from pbio_spark.paths import trouble_at


@dataclass(frozen=True, slots=True)
class Tls:
    """How connections are encrypted; the section `[tls]`.

    Attributes:
        certificate, key: the paths of PEM files: the gateway's certificate chain, and its key.
        clients: the path of a PEM file with the authorities that must have signed clients' certificates; empty: none
            needed.
    """

    certificate: str
    key: str
    clients: str = ""

    def context(self) -> ssl.SSLContext:
        """The SSL context. Raises PBIO_BAD_OPTION for a missing or invalid file."""
        made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            made.load_cert_chain(self.certificate, self.key)
            if self.clients:
                made.load_verify_locations(self.clients)
                made.verify_mode = ssl.CERT_REQUIRED
        except (OSError, ValueError) as error:  # an SSLError is an OSError
            named = f"{self.certificate}, {self.key}" + (f", {self.clients}" if self.clients else "")
            raise PbioError(
                "PBIO_BAD_OPTION",
                f"[tls] of the gateway's configuration: {error} ({named})",
                hint="certificate, key and clients must be PEM files, and the key must belong to the certificate",
            ) from None
        return made


@dataclass(frozen=True, slots=True)
class Config:
    """The configuration of a gateway.

    Attributes:
        tls: None if connections are not encrypted.
    """

    limits: GatewayLimits = GatewayLimits()  # noqa: RUF009 - it never changes
    tls: Tls | None = None
    evpath: ThinSettings = ThinSettings()  # noqa: RUF009 - nor does this
    grid: GridSettings = GridSettings()  # noqa: RUF009 - nor this


def read_config(path: str) -> Config:
    """The configuration in a file. Raises what reading the file raises, and what `text_to_config` raises."""
    try:
        with trouble_at(path):
            text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PbioError(
            "PBIO_PATH_NOT_FOUND",
            "the gateway's configuration does not exist",
            file=path,
            hint="give the path of a TOML file",
        ) from None
    except UnicodeDecodeError:
        raise PbioError(
            "PBIO_BAD_OPTION",
            "the gateway's configuration is not UTF-8",
            file=path,
            hint="save the file in UTF-8",
        ) from None
    try:
        return text_to_config(text)
    except PbioError as error:
        raise error.at(file=path) from None


def text_to_config(text: str) -> Config:
    """The configuration in TOML.

    Raises PBIO_BAD_OPTION for invalid TOML and invalid values, and PBIO_UNKNOWN_OPTION.
    """
    try:
        said = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PbioError(
            "PBIO_BAD_OPTION",
            f"the gateway's configuration is not TOML: {error}",
            hint="docs/events/gateways.md has an example",
        ) from None
    check_keys(said, [own.name for own in fields(Config)], "the top level")
    return Config(
        table_to_settings(GatewayLimits, said.get("limits", {}), "limits"),
        table_to_settings(Tls, said["tls"], "tls") if "tls" in said else None,
        table_to_thin_settings(said.get("evpath", {})),
        table_to_grid_settings(said.get("grid", {})),
    )
