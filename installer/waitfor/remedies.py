"""Causes and remedies, in one short line, from the words of podman, skopeo and Go's network library.

Their texts have the cause at the end, behind the names of images: `explained` puts it in front, with the field of the
user's files that holds the value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from installer.observe.state import Places

# How many fields a line names.
MOST_PLACES = 1


@dataclass(frozen=True)
class _Found:
    """A pattern's match in a text, and what the line is made from."""

    match: re.Match[str]
    registry: str
    places: Places


def _at(*fields: str) -> str:
    """Return fields in parentheses, after a blank; empty without any."""
    known = [field for field in dict.fromkeys(fields) if field]
    more = f" and {len(known) - MOST_PLACES} more" if len(known) > MOST_PLACES else ""
    return f" ({', '.join(known[:MOST_PLACES])}{more})" if known else ""


def _silent_server(found: _Found) -> str:
    server = found.match["server"].strip("[]")
    fields = found.places.dns.get(server, ())
    remedy = "correct its address, or start it" if fields else "is it the right one for the hosts, and does it run"
    return f"DNS server {server} does not answer{_at(*fields)}: {remedy}"


def _unknown_name(found: _Found) -> str:
    name = found.match["name"]
    by_name = (field for registry, field in found.places.mirrors.items() if registry.partition(":")[0] == name)
    server = (found.match.groupdict().get("server") or "").strip("[]")
    who = f"DNS server {server}" if server else "The DNS"
    return f"{who} does not know {name}{_at(*by_name)}: correct the name, or add it to the DNS"


def _silent_proxy(found: _Found) -> str:
    address = found.match["proxy"] or found.match["its_address"]
    return f"The proxy at {address} does not answer{_at(found.places.proxy)}: correct its address, or start it"


def _rejected(found: _Found) -> str:
    return (
        f"{found.registry} rejects the pull secret{_at(found.places.pull_field)}: it needs valid credentials for this "
        "registry"
    )


def _untrusted(found: _Found) -> str:
    if any(words in found.match[0] for words in ("expired", "not yet valid", "out of date")):
        return f"The certificate of {found.registry} is out of date, or a clock is wrong: renew it, or set the clock"
    return (
        f"The certificate of {found.registry} is not trusted{_at(found.places.trust_bundle)}: add the CA that signed it"
    )


def _no_image(found: _Found) -> str:
    field = found.places.mirrors.get(found.registry, "")
    return f"{found.registry} does not have the release's images{_at(field)}: mirror them to it, or correct the name"


def _silent_registry(found: _Found) -> str:
    field = found.places.mirrors.get(found.registry, "")
    return f"{found.registry} does not answer{_at(field)}: correct its name or port, or start it"


_NO_ANSWER = (
    r"(?:i/o timeout|connection refused|no route to host|network is unreachable|(?:context )?deadline exceeded)"
)
_SERVER = r" on (?P<server>\S+):53"
# Go's words for what it did: "read udp [fd00::2]:4137->[fd00::1]:53: ", "dial udp 192.0.2.1:53: connect: "
_ATTEMPT = r"(?:\w+ (?:udp|tcp)(?: \S+)?: (?:\w+: )?)?"
#: In each the cause is in few words; the first one in a text counts, since mirrors come before the source.
_KINDS: Sequence[tuple[re.Pattern[str], Callable[[_Found], str]]] = (
    (re.compile(rf"lookup (?P<name>[\w.-]+){_SERVER}: {_ATTEMPT}{_NO_ANSWER}"), _silent_server),
    # As install-status.sh on the host has it, which keeps the beginning of a text.
    (re.compile(r"DNS server (?P<server>\S+) does not answer"), _silent_server),
    (re.compile(r"DNS server (?P<server>\S+) does not know (?P<name>[\w.-]+\w)"), _unknown_name),
    (re.compile(rf"lookup (?P<name>[\w.-]+)(?:{_SERVER})?: (?:no such host|server misbehaving)"), _unknown_name),
    # The service's release-domain-name-resolved-correctly
    (re.compile(r"Couldn't resolve domain name (?P<name>[\w.-]+), the release image's registry"), _unknown_name),
    (re.compile(r"lookup (?P<name>[\w.-]+): Temporary failure in name resolution"), _unknown_name),
    (
        re.compile(
            rf"the proxy at (?P<proxy>\S+) does not answer|proxyconnect tcp: dial tcp (?P<its_address>\S+): "
            rf"(?:connect: )?{_NO_ANSWER}"
        ),
        _silent_proxy,
    ),
)
#: Those of a registry, which the text has to name: others have such words, too.
_REGISTRY_KINDS: Sequence[tuple[re.Pattern[str], Callable[[_Found], str]]] = (
    (
        re.compile(
            r"rejects the pull secret|unauthorized|authentication required|invalid username/password|"
            r"StatusCode: 40[13]|HTTP status: 401|access to the resource is denied"
        ),
        _rejected,
    ),
    (re.compile(r"certificate is (?:not trusted here|out of date)|x509: [^\[\];]*"), _untrusted),
    (
        re.compile(
            r"registry has no such image: |manifest unknown|name unknown|repository name not known|StatusCode: 404"
        ),
        _no_image,
    ),
    (re.compile(r"registry at \S+ does not answer"), _silent_registry),
    (re.compile(rf"dial tcp \S+: (?:connect: )?{_NO_ANSWER}|no answer from its registry"), _silent_registry),
)
_REGISTRY = re.compile(
    r"(?:docker://|https?://(?=[^/\s]+/v2/)|registry |[\[(]|; |image | in )"
    r'(\[[\da-fA-F:]+\](?::\d+)?|(?:[\w-]+\.)*[\w-]+(?::\d+)?)(?=/[\w./@:-]+|: |[\s,;")\]]|$)'
)


def remedy(text: str, places: Places) -> str:
    """Return the cause in a text with its remedy, in one line; empty where none of the known ones is in it."""
    # Without the source, which is tried after the mirrors.
    mirrors = text.partition("Mirrors also failed: ")[2].partition("]): ")[0]
    return _remedy(mirrors, places) or _remedy(text, places)


def _remedy(text: str, places: Places) -> str:
    kinds = [*_KINDS, *(_REGISTRY_KINDS if _registries(text) else ())]
    matches = [(match, line) for pattern, line in kinds if (match := pattern.search(text))]
    if not matches:
        return ""
    match, line = min(matches, key=lambda pair: pair[0].start())
    before, after = (_registries(part) for part in (text[: match.start()], text[match.end() :]))
    names = [*after[:1], *before] or _registries(text)
    return line(_Found(match, names[-1] if names else "", places))


def _registries(text: str) -> list[str]:
    return [name for name in _REGISTRY.findall(text) if "." in name or ":" in name]


def explained(line: str, places: Places) -> str:
    """Return a line with its cause and remedy in front, where these are known."""
    cause = remedy(line, places)
    return f"{cause}. {line}" if cause else line
