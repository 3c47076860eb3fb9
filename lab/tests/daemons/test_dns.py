"""Names, addresses and leases: what dnsmasq is told."""

from lab import topology
from lab.daemons import dns
from lab.layout import Layout


def config(shape, tmp_path):
    text = dns.dnsmasq_config(Layout(tmp_path, shape), leases=tmp_path / "leases", log=tmp_path / "log")
    return text.splitlines()


def test_a_nodes_name_comes_before_the_apis_so_that_it_is_the_ptr(tmp_path):
    names = [name for name, address in dns.records(topology.sno()) if address == "192.168.111.80"]
    assert names[0] == "master-0.ostest.test.node0.example"
    assert "api.ostest.test.node0.example" in names
    assert "api-int.ostest.test.node0.example" in names


def test_static_labs_have_no_dhcp(tmp_path):
    assert not [line for line in config(topology.sno(), tmp_path) if line.startswith("dhcp")]
    lines = config(topology.ha("dhcp"), tmp_path)
    assert sum(line.startswith("dhcp-host=") for line in lines) == 5
    assert "dhcp-host=52:54:00:6e:30:04,192.168.111.24,worker-1" in lines


def test_virtual_ips_are_where_the_api_and_the_apps_are(tmp_path):
    lines = config(topology.ha(), tmp_path)
    assert "host-record=api.ostest.test.node0.example,192.168.111.5" in lines
    assert "address=/apps.ostest.test.node0.example/192.168.111.4" in lines
