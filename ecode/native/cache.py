"""The private folder of compiled kernels.

`$ECODE_CACHE_DIR`, else `$XDG_CACHE_HOME/ecode`, else `~/.cache/ecode`; an empty `ECODE_CACHE_DIR` switches it off.
Machine code is read only from there, and only while the folder belongs to this user and nobody else may write to it
(DESIGN decision 15). A folder that cannot be used is not an error: each process compiles the kernels again,
and warns once.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import tempfile
from pathlib import Path

from ecode.native.identity import identity
from ecode.native.kernel import Kernel

_DIGEST = 32

log = logging.getLogger("ecode")
_warned: list[str] = []
"""The reason that this process has given; empty before its warning."""


def folder() -> Path | None:
    """The cache folder, created if it is missing; None if no folder can be trusted."""
    return None if is_off() else _usable()[0]


def is_off() -> bool:
    return os.environ.get("ECODE_CACHE_DIR") == ""


def _usable() -> tuple[Path | None, str]:
    """The folder, or else why none can be used."""
    configured = os.environ.get("ECODE_CACHE_DIR")
    try:
        path = Path(configured or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ecode")
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.stat()
    except (OSError, RuntimeError) as error:
        return None, str(error)
    is_private = status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return (path, "") if is_private else (None, f"others may write to {path}")


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
    """Store a kernel, whole or not at all; warn once if that fails."""
    if is_off():
        return
    cache, why = _usable()
    if cache is None:
        _warn(why)
        return
    content = kernel.symbol.encode() + b"\0" + kernel.code
    try:
        handle, temporary = tempfile.mkstemp(dir=cache)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(content).digest() + content)
            os.replace(temporary, cache / key)
        except BaseException:
            os.unlink(temporary)  # of a full disk, for one
            raise
    except OSError as error:
        _warn(str(error))


def _warn(why: str) -> None:
    if not _warned:
        _warned.append(why)
        log.warning(
            "compiled kernels cannot be kept, so each process compiles them again: %s; set ECODE_CACHE_DIR to a folder "
            "that this user alone can write, or to nothing to do without",
            why,
        )
