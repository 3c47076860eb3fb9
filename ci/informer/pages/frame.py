"""The common parts of all pages: the frame, the style, links and words."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from ci.informer.arithmetic.flakes import Outcome

#: A letter beside the colour: nothing is shown by colour alone.
LETTERS = {Outcome.PASSED: "P", Outcome.FLAKE: "f", Outcome.FAILED: "F", Outcome.VOID: "I", Outcome.SKIPPED: "s"}
LEGEND = (
    "P passed, f flake (passed when tried again), F failed, I invalid run (the lab or its host failed, or it was "
    "interrupted), s skipped"
)

STYLE = """/* node0-ci page */
:root{color-scheme:light dark;--bg:#fff;--fg:#1f2328;--soft:#57606a;--line:#d0d7de;--link:#0550ae;--good:#116329;
--goodbg:#dafbe1;--bad:#a40e26;--badbg:#ffebe9;--flake:#6b4a00;--flakebg:#fff8c5;--void:#6639ba;--voidbg:#fbefff}
@media(prefers-color-scheme:dark){:root{--bg:#0d1117;--fg:#e6edf3;--soft:#a3adb8;--line:#30363d;--link:#79c0ff;
--good:#7ee787;--goodbg:#12261e;--bad:#ffa198;--badbg:#2d1316;--flake:#f0d36b;--flakebg:#272115;--void:#d2a8ff;
--voidbg:#211a2e}}
body{font:15px/1.5 system-ui,sans-serif;margin:0 auto;max-width:84rem;padding:0 1rem 3rem;background:var(--bg);
color:var(--fg)}a{color:var(--link)}a:focus-visible,pre:focus-visible,div:focus-visible{outline:3px solid var(--link);
outline-offset:1px}.skip{position:absolute;left:-99rem}.skip:focus{left:1rem}nav ul{padding:0;list-style:none}
nav li{display:inline-block;margin-right:1rem}table{border-collapse:collapse;margin:.5rem 0 1.5rem}
caption{text-align:left;color:var(--soft);padding:.2rem 0}th,td{text-align:left;vertical-align:top;
padding:.25rem .9rem .25rem 0;border-bottom:1px solid var(--line)}.n{text-align:right;font-variant-numeric:tabular-nums}
.scroll{overflow-x:auto}.grid td{padding:1px;border:0}.grid th{white-space:nowrap;min-width:var(--name)}
.part{content-visibility:auto;contain-intrinsic-height:calc(var(--rows)*(1.7rem + 2px) + 4rem);
width:calc(var(--name) + var(--runs)*(1.7rem + 2px) + 4rem)}
.grid td a{display:block;width:1.7rem;height:1.7rem;line-height:1.7rem;text-align:center;text-decoration:none;
border-radius:3px}.passed,.accepted{color:var(--good)}.failed,.rejected{color:var(--bad);font-weight:600}
.flake,.undecided{color:var(--flake)}.void{color:var(--void)}.skipped{color:var(--soft)}
.grid .passed{background:var(--goodbg)}.grid .failed{background:var(--badbg)}.grid .flake{background:var(--flakebg)}
.grid .void{background:var(--voidbg)}pre{white-space:pre-wrap;overflow-wrap:anywhere;border:1px solid var(--line);
border-radius:4px;padding:.5rem;max-height:24rem;overflow-y:auto}.bar{display:block;height:.9rem;background:var(--link);
min-width:1px}.bar.failed{background:var(--bad)}.fall{width:24rem}svg{max-width:100%;height:auto}.big{font-size:1.4rem}code{overflow-wrap:anywhere}
"""


#: What a served page does: it looks for changes, and takes them over unless somebody is at a link or text of it.
_LIVE = """<script>
setInterval(async () => {
  const main = document.getElementById("main");
  if (document.hidden || main.contains(document.activeElement)) return;
  const answer = await fetch(location.href).catch(() => null);
  if (!answer || !answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("main");
  if (fresh.innerHTML !== main.innerHTML) main.innerHTML = fresh.innerHTML;
}, 5000);
</script>"""


def page(title: str, body: Iterable[str], up: str = "", live: bool = False) -> str:
    """Return a whole page; `up` is the way to the top folder ("" or "../"). One that is `live` follows what changes."""
    links = (("index.html", "Verdicts"), ("grid.html", "Grid"))
    nav = "".join(f'<li><a href="{up}{file}">{name}</a></li>' for file, name in links)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<title>{escape(title)}</title><link rel="stylesheet" href="{up}style.css"><link rel="icon" href="data:,">'
        '</head><body><a class="skip" href="#main">Skip to content</a><header>'
        f'<nav aria-label="Pages"><ul>{nav}</ul></nav></header><main id="main"><h1>{escape(title)}</h1>\n'
        + "\n".join(body)
        + f"\n</main>{_LIVE if live else ''}</body></html>\n"
    )


def word(outcome: str) -> str:
    """Return an outcome or decision, coloured."""
    return f'<span class="{outcome}">{spoken(outcome)}</span>'


def spoken(outcome: str) -> str:
    """Return an outcome or decision as pages say it."""
    return "invalid" if outcome == Outcome.VOID.value else outcome


def clock(seconds: float) -> str:
    """Return a duration: 45.2 s, 12:05 (minutes) or 1:02:03."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def table(caption: str, heads: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterable[str]:
    """Yield a table of cells that are HTML already; the first of a row is its head."""
    yield f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
    yield f"<caption>{escape(caption)}</caption><thead><tr>"
    yield "".join(f'<th scope="col">{escape(head)}</th>' for head in heads) + "</tr></thead><tbody>"
    for first, *rest in rows:
        yield f'<tr><th scope="row">{first}</th>' + "".join(f"<td>{cell}</td>" for cell in rest) + "</tr>"
    yield "</tbody></table></div>"


def pre(title: str, text: str) -> str:
    """Return a text that scrolls, which a keyboard can reach."""
    return f'<pre tabindex="0" role="region" aria-label="{escape(title)}">{escape(text)}</pre>'
