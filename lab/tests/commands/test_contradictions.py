"""`node0-lab deploy DIR --plan`, as it is installed: a plan of valid inputs, a line for each problem of others."""

import pytest

from lab import topology
from lab.derive import AGENT, INSTALL
from lab.testing.directories import STATIC, VIPS, agent, facts, host, install, planned, several

VALID = (install(3, 0, VIPS), several(3))


def test_valid_inputs_are_planned_and_left_alone(tmp_path, capsys):
    code, out, err = planned(VALID, tmp_path, capsys)
    assert (code, err) == (0, "")
    assert facts(topology.load_text(out))["roles"] == "mmm"
    assert sorted((path.name, path.read_text()) for path in tmp_path.iterdir()) == [
        (AGENT, VALID[1]),
        (INSTALL, VALID[0]),
    ]


NICS = host(["eno1"], STATIC)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("texts", "exit_code", "lines"),
    [
        (
            (install(3, 0, VIPS.replace("122.10", "122.3")), agent(NICS, NICS.replace("node-@", "localhost"), NICS)),
            1,
            [
                f"{AGENT}: hosts[1].hostname: localhost is no host's name to the service, which would hold it up "
                "(hostname-valid)",
                f"{INSTALL}: platform.baremetal.apiVIPs[0]: 192.168.122.3 is an address of "
                "hosts[1].networkConfig.interfaces[0].ipv4.address[0].ip too",
            ],
        ),
        (
            (install(), agent(NICS.replace("00:ef:44:20:e6:a@", "x"))),
            1,
            ['DIR: failed to fetch Agent Installer ISO: failed to load asset "Agent Hosts": invalid Hosts '
             'configuration: hosts[0].interfaces[0].macAddress: Invalid value: "x": address x: invalid MAC address'],
        ),
        (
            (install().replace("CLUSTER", "").replace("baseDomain", "baseDomian"), several(1)),
            3,
            ['DIR: failed to fetch Agent Installer ISO: failed to load asset "Install Config": failed to create '],
        ),
    ],
)  # fmt: skip
def test_problems_are_a_line_each_and_end_as_create_image_would(texts, exit_code, lines, tmp_path, capsys):
    code, out, err = planned(texts, tmp_path, capsys)
    assert (code, out) == (exit_code, "")
    found = err.replace(str(tmp_path), "DIR").splitlines()
    assert len(found) == len(lines), found
    for line, wanted in zip(found, lines, strict=True):
        assert line.startswith(f"node0-lab: {wanted}")
