"""The private folder of compiled kernels.

`$ECODE_CACHE_DIR`, else `$XDG_CACHE_HOME/ecode`, else `~/.cache/ecode`; an empty `ECODE_CACHE_DIR` switches it off.
Machine code is read only from there, and only while the folder belongs to this user and nobody else may write to it
(DESIGN decision 15). A folder that cannot be used is not an error: kernels are compiled again.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from pathlib import Path

from ecode.native.identity import identity
from ecode.native.kernel import Kernel

_DIGEST = 32


def folder() -> Path | None:
    """The cache folder, created if it is missing; None if no folder can be trusted."""
    configured = os.environ.get("ECODE_CACHE_DIR")
    if configured == "":
        return None
    try:
        path = Path(configured or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ecode")
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.stat()
    except (OSError, RuntimeError):
        return None
    is_private = status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return path if is_private else None


def load(key: str, name: str, source: str) -> Kernel | None:
    """The kernel stored under `key`; None if it is missing or damaged."""
    cache = folder()
    if cache is None:
        return None
    try:
        stored = (cache / key).read_bytes()
    except OSError:
        return None
    digest, content = stored[:_DIGEST], stored[_DIGEST:]
    symbol, _, code = content.partition(b"\0")
    if hashlib.sha256(content).digest() != digest:
        return None
    return Kernel(name, source, symbol.decode(), code, identity())


def save(key: str, kernel: Kernel) -> None:
    """Store a kernel, whole or not at all."""
    cache = folder()
    if cache is None:
        return
    content = kernel.symbol.encode() + b"\0" + kernel.code
    try:
        handle, temporary = tempfile.mkstemp(dir=cache)
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(content).digest() + content)
        os.replace(temporary, cache / key)
    except OSError:
        return
