"""Helper functions that generated text may use; a kernel starts with those that its text mentions."""

from __future__ import annotations

import re

_SOURCE = """
@inline
def max_int64(a, b):
    return a if a > b else b


@inline
def min_int64(a, b):
    return a if a < b else b


@inline
def copy_present(to, address, n):
    if address != 0:
        copy(to, address, n)
    else:
        zero(to, n)


@inline
def compare_bytes(a, n, b, m):
    i = 0
    while i < n and i < m:
        x = load_uint8(a + i)
        y = load_uint8(b + i)
        if x != y:
            return -1 if x < y else 1
        i += 1
    return -1 if n < m else 1 if n > m else 0


@inline
def same_text(a, n, b, m):
    if a == 0 or b == 0:
        return a == b
    if n != m:
        return False
    i = 0
    while i < n:
        if load_uint8(a + i) != load_uint8(b + i):
            return False
        i += 1
    return True


@inline
def character(address, length, index):
    return as_int64(load_int8(address + index)) if index < length else 0


@inline
def strncmp(a, n, b, m, count):
    count = max_int64(count, 0)
    return compare_bytes(a, n if n < count else count, b, m if m < count else count)


@inline
def strchr(a, n, wanted):
    wanted = wanted & 255
    i = 0
    while i < n:
        if load_uint8(a + i) == wanted:
            return i
        i += 1
    return n if wanted == 0 else -1


@inline
def strrchr(a, n, wanted):
    wanted = wanted & 255
    if wanted == 0:
        return n
    i = n - 1
    while i >= 0 and load_uint8(a + i) != wanted:
        i -= 1
    return i


@inline
def suffix_start(b, m, is_reversed):
    # The start of the greatest suffix of a string, less one, and its period: Crochemore and Perrin, "Two-way
    # string-matching". `is_reversed` reverses the order of characters.
    start = -1
    j = 0
    k = 1
    period = 1
    while j + k < m:
        x = load_uint8(b + j + k)
        y = load_uint8(b + start + k)
        if x == y:
            if k == period:
                j += period
                k = 1
            else:
                k += 1
        elif (x > y) if is_reversed else (x < y):
            j += k
            k = 1
            period = j - start
        else:
            start = j
            j = start + 1
            k = 1
            period = 1
    return start, period


@inline
def strstr(a, n, b, m):
    # Linear in both lengths, without memory of its own.
    if m == 0:
        return 0
    if m > n:
        return -1
    start, period = suffix_start(b, m, False)
    other, other_period = suffix_start(b, m, True)
    if other > start:
        start = other
        period = other_period
    is_periodic = start + 1 + period <= m and same_bytes(b, b + period, start + 1)
    if not is_periodic:
        period = max_int64(start + 1, m - start - 1) + 1
    known = -1
    at = 0
    while at <= n - m:
        i = max_int64(start, known) + 1
        while i < m and load_uint8(b + i) == load_uint8(a + at + i):
            i += 1
        if i < m:
            at += i - start
            known = -1
            continue
        i = start
        while i > known and load_uint8(b + i) == load_uint8(a + at + i):
            i -= 1
        if i <= known:
            return at
        at += period
        known = m - period - 1 if is_periodic else -1
    return -1


@inline
def same_bytes(a, b, n):
    i = 0
    while i < n:
        if load_uint8(a + i) != load_uint8(b + i):
            return False
        i += 1
    return True


@inline
def length_of(a, n, b, m, wanted):
    # The length of the prefix of characters that are (or are not) in another string, held as a set of 256 bits.
    c0 = 0
    c1 = 0
    c2 = 0
    c3 = 0
    i = 0
    while i < m:
        byte = as_int64(load_uint8(b + i))
        bit = 1 << (byte & 63)
        if byte < 64:
            c0 |= bit
        elif byte < 128:
            c1 |= bit
        elif byte < 192:
            c2 |= bit
        else:
            c3 |= bit
        i += 1
    i = 0
    while i < n:
        byte = as_int64(load_uint8(a + i))
        word = c0 if byte < 64 else c1 if byte < 128 else c2 if byte < 192 else c3
        if ((word >> (byte & 63)) & 1) != wanted:
            return i
        i += 1
    return n


@inline
def strspn(a, n, b, m):
    return length_of(a, n, b, m, 1)


@inline
def strcspn(a, n, b, m):
    return length_of(a, n, b, m, 0)


@inline
def find_attribute(handle, a, n):
    # The handle points to the address of the first entry (next, name, length, kind, value, length of the value) and
    # the number of entries.
    entry = load_int64(handle)
    while entry != 0:
        if same_text(load_int64(entry + 8), load_int64(entry + 16), a, n):
            return entry
        entry = load_int64(entry)
    return 0


@inline
def attribute(handle, a, n, kind):
    entry = find_attribute(handle, a, n)
    return entry if entry != 0 and load_int64(entry + 24) == kind else 0
"""

_HELPERS = {
    found[1]: found[0].strip()
    for found in re.finditer(r"@inline\ndef (\w+)\(.*?(?=\n\n\n@inline|\Z)", _SOURCE, re.DOTALL)
}


def helpers(text: str) -> str:
    """The definitions of the helpers that a text uses, and of those that these use, in an order that works."""
    wanted: list[str] = []

    def add(text: str) -> None:
        for name in re.findall(r"\w+", text):
            if name in _HELPERS and name not in wanted:
                body = _HELPERS[name].split(":", 1)[1]
                add(body)
                wanted.append(name)

    add(text)
    return "".join(_HELPERS[name] + "\n\n\n" for name in wanted)
