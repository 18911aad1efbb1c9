"""For tests of programs that use PBIO: hypothesis strategies of formats and records.

    strategies  record types, their formats on machines, and values of formats

It needs hypothesis: `pip install 'pbio-spark[testing]'`.
"""

from pbio_spark.extras import require

require("hypothesis", "testing")

from pbio_spark.testing import strategies  # noqa: E402 - after its library is known to be there

__all__ = ["strategies"]
