"""An installer's answers, and the parts of their text: messages, field errors and warnings."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

# The grammar of Kubernetes' field.Error, in which both installers write (reference/installer.md §0).
_KINDS = (
    "Required value", "Invalid value", "Unsupported value", "Forbidden", "Duplicate value",
    "Too many", "Too long", "Not found", "Internal error",
)  # fmt: skip
_SHOWS_VALUE = {"Invalid value", "Unsupported value", "Duplicate value", "Too many", "Too long", "Not found"}
_PATH = r"[A-Za-z][\w.\-]*(?:\[[^\]\s]*\](?:\.[\w\-]+)*)*|<nil>|\[\]"
_HEAD = re.compile(rf"(?:^|(?<=[\[ ]))({_PATH}): ({'|'.join(_KINDS)})")
# A library of openshift-install logs with the time, and quotes what has blanks.
_LINE = re.compile(r'(time="[^"]*" )?level=(\w+) msg=(.*)')
# Said of the machine and of the release, not of the input.
_NOT_ABOUT_INPUT = re.compile(
    r"Found override for release image|Release Image Architecture|target cluster is in FIPS mode|"
    r"To obtain a suitable binary|^No registry with |^The release was not read"
)
# What node0 writes instead of a secret.
_HIDDEN = re.compile(r"\*\*\*|<not shown|<auths of|<no auths|\[redacted\]")
#: The stages of `create`, each with what its refusals say.
STAGES = {
    "install-config is read": r"failed to unmarshal install-config|failed to load install-config|upconvert install",
    "agent-config is read": r"failed to unmarshal agent-config|failed to load agent-config",
    "install-config's rules": r"invalid install-config configuration",
    "agent-config's rules": r"invalid Agent Config configuration",
    "hosts' rules": r"invalid Hosts configuration|invalid host definition|the number of \w+ hosts defined",
    "network documents": r"staticNetwork configuration",
    "rendezvous IP": r"rendezvousIP",
    "mirror/": r'failed to load asset "Mirror Registries',
    "manifests' rules": r"invalid agent configuration",
    "state file": r"state file",
    "files": r"missing configuration or manifest file",
}


@dataclass(frozen=True)
class Answer:
    """A program's end: its exit code (None: not within its time), standard error, and files by relative path."""

    code: int | None
    stderr: str
    files: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, order=True)
class Error:
    """One field error; `value` is JSON with sorted keys where it is JSON, empty where the kind shows none."""

    path: str
    kind: str
    value: str = ""
    detail: str = ""

    @property
    def hidden(self) -> bool:
        """Tell whether its value is a hidden secret."""
        return bool(_HIDDEN.search(self.value))


def _lines(answer: Answer) -> list[tuple[str, str]]:
    """(level, text); the level of a line that is no log entry is empty."""
    lines = []
    for line in answer.stderr.splitlines():
        entry = _LINE.fullmatch(line)
        if entry is None:
            lines.append(("", line))
        else:
            quoted = entry[1] and entry[3].startswith('"')
            lines.append((entry[2], json.loads(entry[3]) if quoted else entry[3]))
    return lines


def message(answer: Answer) -> str:
    """Return the reason of a refusal, in one line; empty where there was none."""
    if answer.code == 0:
        return ""
    lines = _lines(answer)
    errors = [text for level, text in lines if level in ("fatal", "error")]
    return " ".join(" ".join(errors or [text for level, text in lines if not level]).split())


def warnings(answer: Answer) -> frozenset[str]:
    """Its warnings about the input."""
    texts = (text.strip() for level, text in _lines(answer) if level == "warning")  # the real one indents some
    return frozenset(text for text in texts if not _NOT_ABOUT_INPUT.search(text))


def crash(text: str) -> str:
    """Find where a Go program crashed, by its message; empty if it did not."""
    if not text.startswith("panic: "):
        return ""
    text = text.removeprefix("panic: ")
    # The frames of the runtime itself say nothing.
    frames = re.findall(r"github\.com/openshift/installer/([\w/.\-]+(?:\.\([\w.*]+\))?\.\w+)\(", text)
    return f"{text.split(' goroutine ')[0].split(' [signal ')[0]} in {frames[0] if frames else '?'}"


def stage(text: str) -> str:
    """Return the stage that a message is from; an unknown one's is the message's beginning."""
    return next((name for name, pattern in STAGES.items() if re.search(pattern, text)), text[:80])


def field_errors(text: str) -> tuple[Error, ...]:
    """Return the field errors that a message lists, without doubles."""
    heads: list[tuple[re.Match[str], str, int]] = []  # its head, its value, and where its detail begins
    several, detail_at = False, 0
    for head in _HEAD.finditer(text):
        before = text[: head.start()]
        # In a list, heads follow ", "; what looks like a head within a value or a detail is not one.
        if heads and not (several and before.endswith(", ") and head.start() > detail_at):
            continue
        several = several or before.endswith("[")
        value, length = _value(text[head.end() :]) if head[2] in _SHOWS_VALUE else ("", 0)
        detail_at = head.end() + length
        heads.append((head, value, detail_at))
    if not heads:
        return ()
    ends = [head.start() - 2 for head, _, _ in heads[1:]] + [len(text) - (several and text.endswith("]"))]
    return tuple(
        sorted(
            {
                Error(head[1], head[2], value.strip(), text[at:end].removeprefix(": "))
                for (head, value, at), end in zip(heads, ends, strict=True)
            }
        )
    )


def _value(text: str) -> tuple[str, int]:
    """Return the value that follows a head, and how long it is with what is in front of it."""
    rest = text.removeprefix(": ")
    skipped = len(text) - len(rest)
    try:
        value, end = json.JSONDecoder().raw_decode(rest)
    except ValueError:
        end = -1
    if end >= 0 and rest[end : end + 2] in ("", ": ", ", ", "]"):
        return json.dumps(value, sort_keys=True), skipped + end
    # A bare word, such as an address; or what Go quotes and JSON does not.
    bare = re.match(r'"(?:[^"\\]|\\.)*"|.*?(?=: |, |$)', rest)
    word = bare[0] if bare else ""
    return word, skipped + len(word)
