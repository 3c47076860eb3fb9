"""--set changes one field of a topology and says what is wrong with it."""

import pytest

from lab import topology
from lab.derive.settings import changed
from lab.errors import TopologyError


def test_fields_are_changed_in_order():
    found = changed(
        topology.compact(), ["nodes[1].memory_mib=8192", "nodes[1].vcpu=3", "name=other", "nodes[1].vcpu=4"]
    )
    assert [(n.memory_mib, n.vcpu) for n in found.nodes] == [(4096, 2), (8192, 4), (4096, 1)]
    assert found.name == "other"
    disks = changed(topology.sno(), ["nodes[0].disks=[{size_gib: 30, root: true, bus: nvme}]", "nodes[0].disk_gib=30"])
    assert disks.nodes[0].root_device == "/dev/nvme0n1"


@pytest.mark.parametrize(
    ("setting", "rule"),
    [
        ("nodes[0].memory_mib", "want FIELD=VALUE"),
        ("nodes[9].vcpu=1", "3 are there"),
        ("nodes[0].vcpu=many", r"Expected `int`, got `str` - at `\$.nodes\[0\].vcpu`"),
        ("nodes[0].colour=red", "unknown field `colour`"),
        ("nodes.x=1", "x is no field there"),
        ("nodes[0].ip=1.2.3.4", "outside machine_network"),
        ("name=[", "line 2: did not find expected node content"),
    ],
)
def test_what_cannot_be_set_is_one_line(setting, rule):
    with pytest.raises(TopologyError, match=rule) as caught:
        changed(topology.compact(), [setting])
    assert str(caught.value).startswith(f"--set {setting}: ")
    assert "\n" not in str(caught.value)
