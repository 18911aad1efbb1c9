"""Implicit conversion between a number that arrives and the type that a program expects.

Inside a program C converts, as its author knows. Between types of different authors, a value must survive: one that the
other type cannot represent ends the event as a bad record.
"""

from __future__ import annotations

from ecode.errors import TrapKind
from ecode.semantics.arithmetic import is_floating, is_signed, limits
from ecode.typed_to_numba.emitter import Emitter
from ecode.types import Basic

_EXACT_BITS = {4: 24, 8: 53}


def fitted(emitter: Emitter, text: str, found: Basic, wanted: Basic, what: str) -> str:
    """The text of a number as another plain type. `what` names the value, for the error."""
    if found == wanted:
        return text
    beyond = f"the value of {what} does not fit {wanted}"
    if is_floating(found):
        if is_floating(wanted):
            return _float_to_float(emitter, text, found, wanted, beyond)
        return _float_to_whole(emitter, text, wanted, beyond)
    number = emitter.temp(f"as_int64({text})")
    if is_floating(wanted):
        return _whole_to_float(emitter, number, found, wanted, beyond)
    return _whole_to_whole(emitter, number, found, wanted, beyond)


def _float_to_float(emitter: Emitter, text: str, found: Basic, wanted: Basic, beyond: str) -> str:
    if found.size < wanted.size:
        return f"as_{wanted}({text})"
    number = emitter.temp(text)
    narrow = emitter.temp(f"as_{wanted}({number})")
    emitter.trap(f"as_{found}({narrow}) != {number} and {number} == {number}", TrapKind.BAD_RECORD, 0, beyond)
    return narrow


def _float_to_whole(emitter: Emitter, text: str, wanted: Basic, beyond: str) -> str:
    number = emitter.temp(f"as_float64({text})")
    low, high = limits(wanted)
    # Neither bound is rounded: both are powers of two.
    emitter.trap(f"not {float(low)!r} <= {number} < {float(high + 1)!r}", TrapKind.BAD_RECORD, 0, beyond)
    whole = emitter.temp(f"saturated_{wanted}({number})")
    back = f"as_float64(as_uint64({whole}))" if high > 2**63 - 1 else f"as_float64({whole})"
    emitter.trap(f"{back} != {number}", TrapKind.BAD_RECORD, 0, beyond)
    return whole


def _whole_to_float(emitter: Emitter, number: str, found: Basic, wanted: Basic, beyond: str) -> str:
    is_long = not is_signed(found) and found.size == 8  # travels as the int64 of the same bits
    given = f"as_uint64({number})" if is_long else number
    if 8 * found.size - is_signed(found) <= _EXACT_BITS[wanted.size]:
        return f"as_{wanted}({given})"
    rounded = emitter.temp(f"as_{wanted}({given})")
    double = emitter.temp(f"as_float64({rounded})")
    limit, back = (2.0**64, f"as_int64(as_uint64({double}))") if is_long else (2.0**63, f"as_int64({double})")
    emitter.trap(f"{double} >= {limit!r} or {back} != {number}", TrapKind.BAD_RECORD, 0, beyond)
    return rounded


def _whole_to_whole(emitter: Emitter, number: str, found: Basic, wanted: Basic, beyond: str) -> str:
    low, high = limits(wanted)
    found_low, found_high = limits(found)
    if found_high > 2**63 - 1:
        # Numbers beyond an int64 are negative here; the others have the bound of the narrower type.
        if high < found_high:
            bound = f" or {number} > {high}" if high < 2**63 - 1 else ""
            emitter.trap(f"{number} < 0{bound}", TrapKind.BAD_RECORD, 0, beyond)
        return number
    wrong = [f"{number} < {low}"] if low > found_low else []
    wrong += [f"{number} > {high}"] if high < found_high else []
    if wrong:
        emitter.trap(" or ".join(wrong), TrapKind.BAD_RECORD, 0, beyond)
    return number
