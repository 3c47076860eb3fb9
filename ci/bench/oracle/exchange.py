"""Does each installer read the cluster-manifests/ and mirror/ that the other wrote?"""

from __future__ import annotations

from collections.abc import Sequence

from ci.bench.oracle.answers import Answer, message
from ci.bench.oracle.programs import Input, Oracle, node0_answers


def handed_on(one: Input, answer: Answer) -> Input:
    """An asset directory with the generated manifests only: beside configs they would be generated anew."""
    outputs = {name: text for name, text in answer.files.items() if name.startswith(("cluster-manifests/", "mirror/"))}
    return Input(one.name, {name: text.encode() for name, text in outputs.items()})


def rows(oracle: Oracle, valid: Sequence[tuple[Input, Answer, Answer]]) -> list[tuple[str, str]]:
    """How many of the valid inputs' manifests the other reads, and what it says of those that it does not."""
    theirs = node0_answers([handed_on(one, left) for one, left, _ in valid])
    ours = oracle.answers([handed_on(one, right) for one, _, right in valid])
    lines = []
    for name, answers in (("node0 reads openshift-install's", theirs), ("openshift-install reads node0's", ours)):
        read = sum(answer.code == 0 for answer in answers)
        lines.append((name, f"{read:5} of {len(answers):5}"))
        refused = [
            (one.name, message(answer)) for (one, _, _), answer in zip(valid, answers, strict=True) if answer.code
        ]
        lines += [(f"  not {name}", text[-200:]) for name, text in refused]
    return lines
