"""Pages in a real browser, as axe-core and narrow windows find them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drivers.browser import Page

#: A telephone's width and a desk's, in pixels, each with a colour scheme: no style sheet of ours asks for both at once.
WINDOWS = ((360, "dark"), (1280, "light"))


def complaints(page: Page, least: int = 10) -> list[str]:
    """List what is wrong with the page that is open: axe-core's violations in each of the windows, and a page that
    is wider than its window. At least so many of axe-core's rules must have had something to check."""
    axe = pytest.importorskip("axe_core_python")
    page.js((Path(axe.__file__).parent / "axe.min.js").read_text() + "; true")
    lines = []
    for width, mode in WINDOWS:
        page.resize(width)
        page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": mode}])
        assert page.js(f"matchMedia('(prefers-color-scheme: {mode})').matches") is True
        answer = page.js("axe.run().then(r => JSON.stringify([r.violations, r.passes.length]))")
        violations, passed = json.loads(answer)
        assert passed > least
        lines += [f"{width} {mode} {item['id']}: {item['nodes'][0]['html'][:200]}" for item in violations]
        taken = page.js("document.documentElement.scrollWidth")
        lines += [f"{width}: the page is {taken} px wide"] if taken > width else []
    return lines
