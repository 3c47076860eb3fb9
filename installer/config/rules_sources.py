"""Rules 46 to 51: proxy and mirrors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from installer.config import check
from installer.config.fielderror import FieldError, invalid, required, unsupported
from installer.config.rules import rule
from installer.config.types import InstallConfig

POLICIES = ("AllowContactingSource", "NeverContactSource")


@rule("46", "proxy")
def proxy(config: InstallConfig) -> Iterator[FieldError]:
    """At least one proxy, of the right scheme (47), and a list of exceptions (48)."""
    if config.proxy is None:
        return
    if not config.proxy.http_proxy and not config.proxy.https_proxy:
        yield required("proxy", "must include httpProxy or httpsProxy")
    for name, value, schemes in (
        ("httpProxy", config.proxy.http_proxy, ("http",)),
        ("httpsProxy", config.proxy.https_proxy, ("http", "https")),
    ):
        if not value:
            continue
        path = f"proxy.{name}"
        if problem := check.uri(value, schemes):
            yield invalid(path, value, problem)
            continue
        if urlsplit(value).scheme not in schemes:
            yield unsupported(path, urlsplit(value).scheme, schemes)
        yield from _inside(config, path, value)
    yield from _no_proxy(config.proxy.no_proxy)


def _inside(config: InstallConfig, path: str, value: str) -> Iterator[FieldError]:
    host = check.address(urlsplit(value).hostname or "")
    if host is None or config.networking is None:
        return
    lists = [("cluster networks", entry.cidr) for entry in config.networking.cluster_network]
    lists += [("service networks", item) for item in config.networking.service_network]
    for name, item in lists:
        network = check.network(item)
        if network is not None and host in network:
            yield invalid(path, value, f"proxy value is part of the {name} {item}")


def _no_proxy(value: str) -> Iterator[FieldError]:
    if not value or value == "*":
        return
    if " " in value:
        yield invalid("proxy.noProxy", value, "noProxy must not have spaces")
        return
    for item in value.split(","):
        plain = item.removeprefix(".")
        if check.address(item) is None and check.network(item) is None and check.domain(plain.lower()):
            yield invalid(
                "proxy.noProxy",
                value,
                f"each element of noProxy must be a IP, CIDR or domain without wildcard "
                f"characters, which is violated by element {item!r}",
            )


@rule("49", "imageDigestSources")
def mirrors(config: InstallConfig) -> Iterator[FieldError]:
    """Repositories, never references; policies (50); one spelling only (51)."""
    for name, sources in (
        ("imageContentSources", config.image_content_sources),
        ("imageDigestSources", config.image_digest_sources),
    ):
        for index, source in enumerate(sources):
            path = f"{name}[{index}]"
            if problem := check.repository(source.source):
                yield invalid(f"{path}.source", source.source, problem)
            for number, mirror in enumerate(source.mirrors):
                if problem := check.repository(mirror):
                    yield invalid(f"{path}.mirrors[{number}]", mirror, problem)
            if source.source_policy and source.source_policy not in POLICIES:
                yield invalid(f"{path}.sourcePolicy", source.source_policy, f"supported values: {', '.join(POLICIES)}")
            elif source.source_policy and not source.mirrors:
                yield invalid(
                    f"{path}.sourcePolicy", source.source_policy, "sourcePolicy cannot be set without mirrors"
                )
    if config.image_content_sources and config.image_digest_sources:
        yield invalid(
            "imageContentSources",
            [re.sub(r"\s", "", source.source) for source in config.image_content_sources],
            "cannot set imageContentSources and imageDigestSources at the same time",
        )
