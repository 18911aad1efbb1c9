"""The options by which a command that connects to a peer encrypts the connection."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Annotated

import typer


@dataclass(frozen=True)
class Encryption:
    """The options, shared by `send` and the commands for Grid events."""

    tls: Annotated[
        bool, typer.Option("--tls", help="Encrypt the connection; the authorities of this system are trusted.")
    ] = False
    ca: Annotated[
        str | None,
        typer.Option("--ca", metavar="FILE", help="Encrypt it, and trust the authorities of this PEM file only."),
    ] = None
    certificate: Annotated[
        str | None,
        typer.Option(
            "--certificate", metavar="FILE", help="Encrypt it, and show the peer the certificate of this PEM file."
        ),
    ] = None
    key: Annotated[
        str | None,
        typer.Option(
            "--key", metavar="FILE", help="A PEM file with the certificate's key, if the certificate's file lacks it."
        ),
    ] = None

    def context(self) -> ssl.SSLContext | None:
        """The SSL context; None without encryption.

        Raises BadParameter for a key alone, and PBIO_BAD_OPTION for a file that is missing or of another kind.
        """
        from pbio_spark.errors import PbioError

        if self.key is not None and self.certificate is None:
            raise typer.BadParameter("--key needs --certificate")
        if not self.tls and self.ca is None and self.certificate is None:
            return None
        option, path = "--ca", self.ca
        try:
            made = ssl.create_default_context(cafile=self.ca)
            if self.certificate is not None:
                option, path = "--certificate" if self.key is None else "--certificate, --key", self.certificate
                made.load_cert_chain(self.certificate, self.key)
        except (OSError, ValueError) as error:
            raise PbioError(
                "PBIO_BAD_OPTION",
                f"{option}: {error}",
                file=path,
                hint="give PEM files; the key must belong to the certificate",
            ) from None
        return made
