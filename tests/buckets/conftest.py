"""A bucket, as the tests of channels have it."""

from tests.channels.conftest import bucket, endpoint

__all__ = ["bucket", "endpoint"]
