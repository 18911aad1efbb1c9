"""`require`: an optional library, or an error that says how to install it."""

from __future__ import annotations

import importlib
from types import ModuleType

from pbio_spark.errors import PbioError


def require(module: str, extra: str) -> ModuleType:
    """The module, which an optional extra installs. Raises PBIO_MISSING_EXTRA.

    >>> require("no_such_library", "viz")
    Traceback (most recent call last):
    pbio_spark.errors.PbioError: [PBIO_MISSING_EXTRA] no_such_library is not installed
      hint: pip install 'pbio-spark[viz]'
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        hint = f"pip install 'pbio-spark[{extra}]'"
        raise PbioError("PBIO_MISSING_EXTRA", f"{module} is not installed", hint=hint) from None
