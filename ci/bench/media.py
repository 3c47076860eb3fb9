"""A lab whose machines stay off: up, InsertMedia of one image into every machine through Redfish, down."""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec

from ci.bench.measure import seconds_of, table
from lab import topology
from lab.lab import Lab

IMAGE_BYTES = 10**9


def run() -> None:
    """Print the figures of a compact lab; its machines stay off."""
    shape = topology.compact()
    # The machines stay off: the lab must not wait for memory.
    nodes = tuple(msgspec.structs.replace(node, memory_mib=256) for node in shape.nodes)
    with tempfile.TemporaryDirectory() as work:
        image = Path(work) / "image.iso"
        with image.open("wb") as file:
            file.truncate(IMAGE_BYTES)
        lab = Lab(msgspec.structs.replace(shape, nodes=nodes), Path(work) / "artifacts")
        up = seconds_of(lab.start)
        try:
            inserts = [seconds_of(lambda node=node: node.media.insert(image)) for node in lab.nodes.values()]  # type: ignore[misc]
            used = sum(path.stat().st_blocks * 512 for path in lab.layout.pool.iterdir())
        finally:
            down = seconds_of(lab.stop)
    rows = [
        ("lab up, target under 10 s", f"{up:.2f} s"),
        ("first insert", f"{inserts[0]:.2f} s"),
        ("each further insert", f"{max(inserts[1:]):.2f} s"),
        ("all three, target under 5 s", f"{sum(inserts):.2f} s"),
        ("disk that the inserts took", f"{used / 1e6:.0f} MB"),
        ("lab down, target under 15 s", f"{down:.2f} s"),
    ]
    table(f"a compact lab, an image of {IMAGE_BYTES / 1e9:.0f} GB, no boot", rows)
