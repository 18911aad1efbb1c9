"""Rewrites `grid.json`, deliberately, never in a test: `python -m tests.golden.grid_messages`."""

from __future__ import annotations

import json
from pathlib import Path

from pbio_spark.gateways.grid.protocol.codec import encode
from pbio_spark.gateways.grid.protocol.frames import to_frame
from tests.gateways.grid.samples import MESSAGES

if __name__ == "__main__":
    made = {}
    for name, message in MESSAGES.items():
        frame = to_frame(encode(message))
        made[name] = {"length": frame[:4].hex(), "xml": frame[4:].decode()}
    Path(__file__).with_name("grid.json").write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
