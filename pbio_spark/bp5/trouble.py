"""Errors of BP5 folders: each names the file, and as far as they are known the step, the writer and the variable."""

from __future__ import annotations

from pbio_spark.errors import PbioError

VERIFY = "`pbio bp5 verify` says what else is damaged; fromStep and toStep read the steps around it"


def bad(
    reason: str,
    *,
    file: str,
    offset: int | None = None,
    step: int | None = None,
    writer: int | None = None,
    variable: str | None = None,
    code: str = "PBIO_BAD_BP5",
) -> PbioError:
    """The error of damage.

    >>> print(bad("the block is cut off", file="run.bp/data.0", step=5, writer=2, variable="p"))
    [PBIO_BAD_BP5] step 5, writer 2: the block is cut off
      at: run.bp/data.0, field p
      hint: `pbio bp5 verify` says what else is damaged; fromStep and toStep read the steps around it
    """
    hint = VERIFY if code in ("PBIO_BAD_BP5", "PBIO_TRUNCATED") else None
    return PbioError(code, placed(reason, step, writer), file=file, offset=offset, field=variable, hint=hint)


def placed(reason: str, step: int | None, writer: int | None) -> str:
    """A reason that begins with its step and writer."""
    place = [f"{name} {number}" for name, number in (("step", step), ("writer", writer)) if number is not None]
    return f"{', '.join(place)}: {reason}" if place else reason
