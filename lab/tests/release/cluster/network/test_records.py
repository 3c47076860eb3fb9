"""The records of the cluster's zone, against the rules of Kubernetes' specification."""

from __future__ import annotations

from ipaddress import ip_address

from hypothesis import given
from hypothesis import strategies as st

from lab.release.cluster.network.records import Record, records, zone_file

LABEL = st.from_regex(r"[a-z][a-z0-9]{0,6}", fullmatch=True)
ADDRESS = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)).map(str)
PORTS = st.lists(
    st.fixed_dictionaries(
        {"port": st.integers(1, 65535), "protocol": st.sampled_from(["TCP", "UDP", "SCTP"])}, optional={"name": LABEL}
    ),
    max_size=3,
)
ENDPOINT = st.fixed_dictionaries(
    {
        "addresses": st.lists(ADDRESS, min_size=1, max_size=2),
        "conditions": st.sampled_from([{}, {"ready": True}, {"ready": False}]),
    },
    optional={"hostname": LABEL},
)


def service(name: str, **spec: object) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": spec}


def part(name: str, endpoints: list[object], ports: list[object]) -> dict[str, object]:
    labels = {"kubernetes.io/service-name": name}
    meta = {"name": f"{name}-x", "namespace": "ns", "labels": labels}
    return {"metadata": meta, "addressType": "IPv4", "endpoints": endpoints, "ports": ports}


def ask(found: frozenset[Record], name: str, kind: str) -> set[str]:
    return {record.data for record in found if (record.name, record.type) == (name, kind)}


def family(address: str) -> str:
    return "A" if ip_address(address).version == 4 else "AAAA"


def reverse(address: str) -> str:
    return f"{ip_address(address).reverse_pointer}."


def srv(found: frozenset[Record], port: dict[str, object], name: str) -> set[tuple[str, str]]:
    answers = ask(found, f"_{port['name']}._{str(port['protocol']).lower()}.{name}", "SRV")
    return {(text.split()[2], text.split()[3]) for text in answers}


@given(st.lists(ADDRESS, min_size=1, max_size=2, unique=True), PORTS)
def test_a_service_with_addresses_has_them_its_ports_and_pointers(addresses, ports):
    found = records([service("web", clusterIP=addresses[0], clusterIPs=addresses, ports=ports)], [], ["ns"])
    name = "web.ns.svc.cluster.local."
    for address in addresses:
        assert address in ask(found, name, family(address))
        assert ask(found, reverse(address), "PTR") == {name}
    for port in ports:
        if "name" in port:
            assert (str(port["port"]), name) in srv(found, port, name)
    assert len({r for r in found if r.type == "SRV"}) == len({tuple(sorted(p.items())) for p in ports if "name" in p})
    assert len({r for r in found if r.type in ("A", "AAAA")}) == len(addresses)


@given(st.lists(ENDPOINT, max_size=4), PORTS)
def test_a_headless_service_has_its_ready_endpoints_each_with_a_name_that_leads_back(endpoints, ports):
    found = records([service("db", clusterIP="None")], [part("db", endpoints, ports)], ["ns"])
    name = "db.ns.svc.cluster.local."
    ready = [e for e in endpoints if e["conditions"].get("ready") is not False]
    addresses = {address for endpoint in ready for address in endpoint["addresses"]}
    assert ask(found, name, "A") | ask(found, name, "AAAA") == addresses
    for endpoint in ready:
        for address in endpoint["addresses"]:
            targets = ask(found, reverse(address), "PTR")
            if "hostname" in endpoint:
                assert f"{endpoint['hostname']}.{name}" in targets
            for target in targets:
                assert target.endswith(f".{name}")
                assert address in ask(found, target, family(address))
                for port in ports:
                    if "name" in port:
                        assert (str(port["port"]), target) in srv(found, port, name)
    pointers = {record.name for record in found if record.type == "PTR"}
    assert pointers == {reverse(address) for address in addresses}


def test_an_external_name_is_an_alias_and_has_no_endpoints():
    found = records(
        [service("out", type="ExternalName", externalName="WWW.example.com.")], [part("out", [], [])], ["ns"]
    )
    assert {r for r in found if r.name.startswith("out.")} == {
        Record("out.ns.svc.cluster.local.", "CNAME", "www.example.com.")
    }


@given(st.lists(ENDPOINT, max_size=3), PORTS)
def test_endpoints_of_a_service_with_an_address_have_no_names(endpoints, ports):
    web = service("web", clusterIP="172.30.0.9")
    assert records([web], [part("web", endpoints, ports)], []) == records([web], [], [])


def test_the_zone_begins_with_its_authority_and_holds_no_pointers():
    found = records([service("web", clusterIP="172.30.0.9")], [], ["ns"])
    lines = zone_file(found, 7).splitlines()
    assert " IN SOA " in lines[0]
    assert " 7 7200 " in lines[0]
    assert len(lines) == 2 + len([r for r in found if r.type != "PTR"])
