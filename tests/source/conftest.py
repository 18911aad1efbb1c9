"""Channel spaces, as the tests of channels have them."""

from tests.channels.conftest import bucket, endpoint, space

__all__ = ["bucket", "endpoint", "space"]
