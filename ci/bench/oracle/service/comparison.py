"""`ci/bench/run oracle-service`: the agreement of both services over many scenarios and requests."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ci.bench.measure import share, table
from ci.bench.oracle.service import requests
from ci.bench.oracle.service.api import Api, services
from ci.bench.oracle.service.play import Played, play
from ci.bench.oracle.service.scenarios import scenarios
from installer.testing.service.words_kit import Scheme

Pair = tuple[str, str, Any, Any, str]  # kind, what is compared, there, here, an example of where


def facts(there: Iterable[Played], here: Iterable[Played]) -> Iterable[Pair]:
    """Both services' facts of the same scenarios."""
    for left, right in zip(there, here, strict=True):
        example = f"{left.world.name}: {', '.join(left.world.done) or 'nothing changed'}"
        for name in sorted(left.facts.keys() | right.facts.keys()):
            default = "passed" if "-validation " in name else None
            pair = left.facts.get(name, default), right.facts.get(name, default)
            yield name.split(" ")[0], name.split(" of ")[0], *pair, example


def codes(asked: Sequence[requests.Request], there: Sequence[int], here: Sequence[int]) -> Iterable[Pair]:
    """Both services' status codes of the same requests."""
    for request, left, right in zip(asked, there, here, strict=True):
        body = json.dumps(request.body, default=repr)
        yield "requests", request.kind, left, right, f"{request.method} {request.path} {body[-160:]}"


def report(pairs: Iterable[Pair]) -> None:
    """Print how many agree, by kind, and the differences, the most frequent first."""
    kinds: dict[str, list[bool]] = {}
    differences: dict[str, list[str]] = {}
    for kind, what, left, right, example in pairs:
        kinds.setdefault(kind, []).append(left == right)
        if left != right:
            differences.setdefault(f"{what}: {left} there, {right} here", []).append(example)
    rows = [(kind, share(sum(equal), len(equal))) for kind, equal in kinds.items()]
    table("node0's service against the other", rows)
    print("\ndifferences (docs/rendezvous.md)" if differences else "\nno differences")
    for what, examples in sorted(differences.items(), key=lambda item: -len(item[1])):
        print(f"{len(examples):4} {what}   [{examples[0]}]")


def run(url: str, count: int, seed: int, *, ca: Path | None, user_token: Path | None, token: Path | None) -> None:
    """Compare node0's service with the one at `url`, and print."""
    files = {Scheme.USER: user_token, Scheme.AGENT: token}
    other = Api("the other", url, {scheme: path.read_text().strip() for scheme, path in files.items() if path}, ca)
    with tempfile.TemporaryDirectory(prefix="oracle-") as name, services(other, Path(name)) as both:
        version = other.version()
        asked = requests.every(version)
        if not other.tokens:
            asked = [request for request in asked if request.kind != "token"]

        def answers(api: Api) -> tuple[list[Played], list[int]]:
            played = [Played(world) for world in scenarios(count, seed)]
            play(api, played, version)
            return played, requests.asked(api, asked, version)

        with ThreadPoolExecutor(2) as pool:
            there, here = pool.map(answers, both)
    report([*facts(there[0], here[0]), *codes(asked, there[1], here[1])])
