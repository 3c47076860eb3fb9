"""Rule 31: platform nutanix."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from installer.common.redact import without_login
from installer.config.fielderror import FieldError, invalid, required, too_many
from installer.config.rules.catalogue import rule
from installer.config.rules.platforms.platform import balancer_and_dns
from installer.config.types.cloud import NutanixFailureDomain, PrismElement, PrismEndpoint
from installer.config.types.install import InstallConfig
from installer.config.values import check

_PATH = "platform.nutanix"
_SUBNETS = 32
_NAME = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"


@rule("31", _PATH)
def nutanix(config: InstallConfig) -> Iterator[FieldError]:
    """Prism's endpoints and credentials, subnets, and failure domains."""
    platform = config.platform.nutanix
    if platform is None:
        return
    central = platform.prism_central
    yield from _endpoint(f"{_PATH}.prismCentral.endpoint", central.endpoint, "Prism Central")
    for name, value in (("username", central.username), ("password", central.password)):
        if not value:
            yield required(f"{_PATH}.prismCentral.{name}", f"must specify the Prism Central {name}")
    if len(platform.prism_elements) != 1:
        yield required(f"{_PATH}.prismElements", "must specify one Prism Element")
    for index, element in enumerate(platform.prism_elements):
        for error in _element(element):
            yield _with_index(error, "prismElements", index, len(platform.prism_elements))
    yield from _subnets(f"{_PATH}.subnetUUIDs", platform.subnet_uuids)
    yield from balancer_and_dns(_PATH, platform.load_balancer, platform.dns_records_type)
    timeout = platform.prism_api_call_timeout
    if timeout is not None and timeout <= 0:
        yield invalid(f"{_PATH}.prismAPICallTimeout", timeout, "must be a positive integer value")
    for index, domain in enumerate(platform.failure_domains):
        for error in _failure_domain(f"{_PATH}.failureDomain", domain):
            yield _with_index(error, "failureDomains", index, len(platform.failure_domains))


def _with_index(error: FieldError, name: str, index: int, count: int) -> FieldError:
    """Upstream names the list and not its entry; where there are several, the detail says which one it is."""
    return replace(error, detail=f"{error.detail} ({_PATH}.{name}[{index}])") if count > 1 else error


def _element(element: PrismElement) -> Iterator[FieldError]:
    path, what = f"{_PATH}.prismElements", "Prism Element"
    if not element.uuid:
        yield required(f"{path}.uuid", "must specify the Prism Element UUID")
    address, port = element.endpoint.address, element.endpoint.port or 0
    if not address:
        yield required(f"{path}.endpoint.address", f"must specify the {what} endpoint address")
    elif check.address(address) is None and check.subdomain(address):
        text = f"must be the domain name or IP address of the {what} (cluster)"
        yield invalid(f"{path}.endpoint.address", without_login(address), text)
    if not 1 <= port <= 65535:
        text = f"The {what} endpoint port is invalid, must be in the range of 1 to 65535"
        yield required(f"{path}.endpoint.port", text)


def _endpoint(path: str, endpoint: PrismEndpoint, what: str) -> Iterator[FieldError]:
    if not endpoint.address:
        yield required(f"{path}.address", f"must specify the {what} endpoint address")
    elif check.address(endpoint.address) is None and check.subdomain(endpoint.address):
        text = f"must be the domain name or IP address of the {what}"
        yield invalid(f"{path}.address", without_login(endpoint.address), text)
    if not 1 <= (endpoint.port or 0) <= 65535:
        text = f"The {what} endpoint port is invalid, must be in the range of 1 to 65535"
        yield invalid(f"{path}.port", endpoint.port or 0, text)


def _subnets(path: str, subnets: tuple[str, ...]) -> Iterator[FieldError]:
    if not subnets or not subnets[0]:
        yield required(path, "must specify at least one subnet")
    elif len(subnets) > _SUBNETS:
        yield too_many(path, len(subnets), _SUBNETS)
    else:
        for value in sorted({value for value in subnets if subnets.count(value) > 1}):
            yield invalid(path, value, "should not configure duplicate value")


def _failure_domain(path: str, domain: NutanixFailureDomain) -> Iterator[FieldError]:
    # The pattern may match anywhere in the name: upstream's is not anchored.
    if not re.search(_NAME, domain.name):
        yield invalid(f"{path}.name", domain.name, f'failureDomain name should match the pattern "{_NAME}".')
    if not domain.prism_element.uuid:
        yield required(f"{path}.prismElement.uuid", "failureDomain prismElement uuid cannot be empty")
    yield from _subnets(f"{path}.subnetUUIDs", domain.subnet_uuids)
    for container in domain.storage_containers:
        for name, value in (("referenceName", container.reference_name), ("uuid", container.uuid)):
            if not value:
                yield required(f"{path}.storageContainers.{name}", f"missing storageContainer {name}")
    for image in domain.data_source_images:
        if not image.reference_name:
            yield required(f"{path}.dataSourceImages.referenceName", "missing dataSourceImage referenceName")
        if not image.uuid and not image.name:
            yield required(f"{path}.dataSourceImages", "one of uuid and name is needed")
