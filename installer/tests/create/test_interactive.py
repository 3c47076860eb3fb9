"""`agent create unconfigured-image`: real registry, an ISO made by xorriso, and the live system that is in it."""

import base64
import json
import shutil

import pytest

from installer.common import certificates
from installer.config.state import FILE as STATE
from installer.create.interactive import SECRETS
from installer.credentials import tokens
from installer.credentials.tokens import Tokens
from installer.ignition.livesystem import SYSTEM_UNITS
from installer.testing.create import outputs_kit
from installer.testing.create.image_kit import NEEDED, content
from installer.testing.create.outputs_kit import MIRROR, create, names

pytestmark = pytest.mark.skipif(bool(NEEDED), reason=f"not installed: {', '.join(NEEDED)}")
directory, lab = outputs_kit.directory, outputs_kit.lab
ISO = "unconfigured.x86_64.iso"
TEMPLATE = "/etc/assisted/rendezvous-host.env.template"


@pytest.fixture
def blank(directory):
    """Provide a directory with nothing of a cluster's."""
    assert create("cluster-manifests", directory) == 0
    blank = directory.parent / "blank"
    (blank / "cluster-manifests").mkdir(parents=True)
    shutil.copytree(directory / "mirror", blank / "mirror")
    for name in ("infraenv", "pull-secret"):
        shutil.copy(directory / f"cluster-manifests/{name}.yaml", blank / "cluster-manifests")
    return blank


def variables(text):
    return dict(line.split("=", 1) for line in text.splitlines())


def test_the_image_names_no_cluster_and_no_rendezvous_host_and_has_what_leads_to_both(blank, capsys):
    assert create("unconfigured-image", blank) == 0
    assert names(blank) == sorted([*MIRROR, "auth/user-token", "auth/watcher-token", "tls/ca.crt", ISO])
    config, files = content(blank / ISO)
    assert "/etc/assisted/rendezvous-host.env" not in files
    assert "192.0.2.1" not in "".join(files.values())
    rendezvous = variables(files[TEMPLATE])
    assert rendezvous["NODE_ZERO_IP"] == "{{.RendezvousIP}}"
    assert rendezvous["SERVICE_BASE_URL"] == "https://{{.RendezvousHost}}:8090/"
    # Tokens that belong together, the same in the image and in auth/, and never on the screen.
    service = variables(files["/usr/local/share/assisted-service/assisted-service.env"])
    public = base64.b64decode(service["EC_PUBLIC_KEY_PEM"]).decode()
    user, watcher = ((blank / f"auth/{name}-token").read_text().strip() for name in ("user", "watcher"))
    assert (rendezvous["USER_AUTH_TOKEN"], service["WATCHER_AUTH_TOKEN"]) == (user, watcher)
    tokens.check(Tokens(public, rendezvous["PULL_SECRET_TOKEN"], user, watcher))
    assert user not in capsys.readouterr().err
    assert (blank / "auth/user-token").stat().st_mode & 0o777 == 0o600
    ca = (blank / "tls/ca.crt").read_text()
    assert files["/opt/agent/tls/ca.crt"] == ca
    certificates.check(certificates.Pair(ca, files["/opt/agent/service-ca/ca.key"]))
    modes = {file["path"]: file["mode"] for file in config["storage"]["files"]}
    assert modes["/opt/agent/service-ca/ca.key"] == modes["/opt/agent/tls/service.key"] == modes[TEMPLATE] == 0o600
    # Nothing but the console starts by itself; what it starts is there.
    units = {unit["name"]: unit["enabled"] for unit in config["systemd"]["units"]}
    assert {name for name, enabled in units.items() if enabled} == set(SYSTEM_UNITS)
    started = files["/etc/assisted/interactive-units"].split()
    assert set(started) <= set(units)
    assert not {"apply-host-config.service", "agent-register-cluster.service"} & set(units)
    for unit in ("getty@tty1.service", "serial-getty@.service", "console-getty.service"):
        assert "exec /usr/local/bin/agent-tui;" in files[f"/etc/systemd/system/{unit}.d/10-agent-tui.conf"]


def test_made_again_from_the_state_it_trusts_the_same_and_a_damaged_one_is_told(blank, capsys):
    assert create("unconfigured-image", blank) == 0
    before = content(blank / ISO)[1]
    (blank / ISO).unlink()
    assert create("unconfigured-image", blank) == 0
    assert content(blank / ISO)[1] == before
    state = json.loads((blank / STATE).read_text())
    state[SECRETS]["userToken"] = state[SECRETS]["watcherToken"]
    (blank / STATE).write_text(json.dumps(state))
    (blank / ISO).unlink()
    capsys.readouterr()
    assert create("unconfigured-image", blank) == 1
    assert f"{SECRETS}: " in capsys.readouterr().err
    assert not (blank / ISO).exists()
