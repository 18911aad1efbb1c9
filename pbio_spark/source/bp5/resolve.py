"""Names given by the user -> names of variables."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from ecode.errors import valid_text
from ecode.suggest import did_you_mean
from pbio_spark.errors import PbioError
from pbio_spark.source.bp5.options import Bp5Options

log = logging.getLogger("pbio_spark.source")


def resolve(asked: Iterable[str], known: Iterable[str], options: Bp5Options, *, is_stream: bool) -> dict[str, str]:
    """Requested names -> names of variables; unknown names are left out if `onUnfilled` allows it.

    Raises PBIO_UNFILLED, and PBIO_AMBIGUOUS_NAME for a name that matches several, none of them exactly.
    """
    variables = {valid_text(name): name for name in known}
    folded: dict[str, list[str]] = {}
    for name in variables:
        folded.setdefault(name.lower(), []).append(name)
    found: dict[str, str] = {}
    for name in asked:
        near = folded.get(name.lower(), [])
        if name in variables:
            found[name] = variables[name]
        elif len(near) == 1:
            found[name] = variables[near[0]]
        elif near:
            reason = f"the column {name!r} may be any of {', '.join(map(repr, near))}"
            raise PbioError("PBIO_AMBIGUOUS_NAME", reason, field=name, hint="spell it exactly as one of them")
        else:
            _unfilled(name, variables, options, is_stream=is_stream)
    return found


def _unfilled(name: str, variables: Mapping[str, str], options: Bp5Options, *, is_stream: bool) -> None:
    reason = f"no dataset has a variable {name!r}"
    said = options.on_unfilled or ("warn" if is_stream else "fail")
    if said == "fail":
        hint = did_you_mean(name, variables) or "rows=variables lists the variables;"
        raise PbioError("PBIO_UNFILLED", reason, field=name, hint=f"{hint} onUnfilled=warn or ignore accepts it")
    if said == "warn":
        log.warning("%s", reason)
