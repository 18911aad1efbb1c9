"""The types of the public surface, as a user's mypy sees them."""

from __future__ import annotations

import re
from pathlib import Path

from mypy import api

SURFACE = Path(__file__).parent / "surface.py"


def test_types_are_what_the_comments_say() -> None:
    out, problems, _ = api.run(["--strict", "--no-incremental", "--follow-imports=silent", str(SURFACE)])
    assert not problems
    revealed = {
        int(line): said for line, said in re.findall(r"surface\.py:(\d+): note: Revealed type is \"(.*)\"", out)
    }
    expected = {
        number: line.partition("  # ")[2]
        for number, line in enumerate(SURFACE.read_text(encoding="utf-8").splitlines(), 1)
        if line.startswith("reveal_type")
    }
    assert revealed == expected, out
    assert "error:" not in out
