"""The command `pbio`, for pages that show it."""

from tests.cli.conftest import pbio

__all__ = ["pbio"]
