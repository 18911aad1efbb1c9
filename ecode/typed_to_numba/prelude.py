"""Helper functions that generated text may use; only those that it mentions are put before it."""

from __future__ import annotations

import re

_SOURCE = """
@inline
def max_int64(a, b):
    return a if a > b else b


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
def strstr(a, n, b, m):
    i = 0
    while i + m <= n:
        j = 0
        while j < m and load_uint8(a + i + j) == load_uint8(b + j):
            j += 1
        if j == m:
            return i
        i += 1
    return -1


@inline
def is_among(byte, b, m):
    j = 0
    while j < m:
        if load_uint8(b + j) == byte:
            return True
        j += 1
    return False


@inline
def strspn(a, n, b, m):
    i = 0
    while i < n and is_among(load_uint8(a + i), b, m):
        i += 1
    return i


@inline
def strcspn(a, n, b, m):
    i = 0
    while i < n and not is_among(load_uint8(a + i), b, m):
        i += 1
    return i


@inline
def find_attribute(handle, a, n):
    # The handle is the address of the address of the first entry: next, name, length, kind, value, length of the value.
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
