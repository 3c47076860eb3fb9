"""Rule 31: platform nutanix."""

from __future__ import annotations

import re
from collections.abc import Iterator

from installer.config import check
from installer.config.fielderror import FieldError, invalid, required, too_many
from installer.config.platform_types import NutanixFailureDomain, PrismEndpoint
from installer.config.rules.catalogue import rule
from installer.config.rules.platform import balancer_and_dns
from installer.config.types import InstallConfig

_PATH = "platform.nutanix"
_SUBNETS = 32


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
        path = f"{_PATH}.prismElements[{index}]"
        if not element.uuid:
            yield required(f"{path}.uuid", "must specify the Prism Element UUID")
        yield from _endpoint(f"{path}.endpoint", element.endpoint, "Prism Element")
    yield from _subnets(f"{_PATH}.subnetUUIDs", platform.subnet_uuids)
    balancer = platform.load_balancer.type if platform.load_balancer else ""
    yield from balancer_and_dns(_PATH, balancer, platform.dns_records_type)
    timeout = platform.prism_api_call_timeout
    if timeout is not None and timeout <= 0:
        yield invalid(f"{_PATH}.prismAPICallTimeout", timeout, "must be a positive integer value")
    for index, domain in enumerate(platform.failure_domains):
        yield from _failure_domain(f"{_PATH}.failureDomains[{index}]", domain)


def _endpoint(path: str, endpoint: PrismEndpoint, what: str) -> Iterator[FieldError]:
    if not endpoint.address:
        yield required(f"{path}.address", f"must specify the {what} endpoint address")
    elif check.address(endpoint.address) is None and check.domain(endpoint.address.lower()):
        yield invalid(f"{path}.address", endpoint.address, f"must be the domain name or IP address of the {what}")
    if not 1 <= (endpoint.port or 0) <= 65535:
        text = f"The {what} endpoint port is invalid, must be in the range of 1 to 65535"
        yield invalid(f"{path}.port", endpoint.port or 0, text)


def _subnets(path: str, subnets: tuple[str, ...]) -> Iterator[FieldError]:
    if not subnets or not all(subnets):
        yield required(path, "must specify at least one subnet")
    elif len(subnets) > _SUBNETS:
        yield too_many(path, len(subnets), _SUBNETS)
    for value in sorted({value for value in subnets if subnets.count(value) > 1}):
        yield invalid(path, value, "should not configure duplicate value")


def _failure_domain(path: str, domain: NutanixFailureDomain) -> Iterator[FieldError]:
    if not re.fullmatch(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?", domain.name):
        yield invalid(f"{path}.name", domain.name, "must consist of lower case letters, digits and dashes")
    if not domain.prism_element.uuid:
        yield required(f"{path}.prismElement.uuid", "failureDomain prismElement uuid cannot be empty")
    yield from _subnets(f"{path}.subnetUUIDs", domain.subnet_uuids)
    for number, container in enumerate(domain.storage_containers):
        for name, value in (("referenceName", container.reference_name), ("uuid", container.uuid)):
            if not value:
                yield required(f"{path}.storageContainers[{number}].{name}", f"missing storageContainer {name}")
    for number, image in enumerate(domain.data_source_images):
        if not image.reference_name:
            yield required(f"{path}.dataSourceImages[{number}].referenceName", "missing dataSourceImage referenceName")
        if not image.uuid and not image.name:
            yield required(f"{path}.dataSourceImages[{number}]", "one of uuid and name is needed")
