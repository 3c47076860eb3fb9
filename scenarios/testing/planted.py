"""Plants secrets of every kind on a live host wherever gather collects: the archive must contain none of them."""

import base64
from typing import Any

from installer.common.redact.testing import corpus, values

VECTORS = corpus.vectors()
SECRETS = {secret for vector in VECTORS for secret in vector.secrets}
FOLDER = "/etc/assisted/manifests"
UNIT = "planted"
CONTAINER = "planted"
# A secret without any name beside it: the host knows its value from its pull secret's file and environment.
JOURNAL_TEXT = "planted: nobody can log in with"
_CHUNK = 60_000  # characters of one command line
# Vectors in one file: some are whole documents.
_BATCH = 60

INSTALL_CONFIG = f"""\
apiVersion: v1
platform:
  baremetal:
    hosts:
    - name: master-0
      bmc:
        address: redfish-virtualmedia+https://192.0.2.1/redfish/v1/Systems/1
        username: root
        password: {values.NAMED["BMC password"][1]}
pullSecret: '{values.PULL_SECRET}'
"""


def write(host: Any, path: str, text: str) -> None:
    """Put a file on the host; `host` is testinfra's."""
    packed = base64.b64encode(text.encode()).decode()
    host.check_output("sudo install -D -m 600 /dev/null %s", path)
    for start in range(0, len(packed), _CHUNK):
        host.check_output("echo %s | base64 -d | sudo tee -a %s >/dev/null", packed[start : start + _CHUNK], path)


def plant(host: Any) -> int:
    """Plant all of them; returns how many lines went to the journal."""
    journal = "".join(f"{vector.text}\n" for vector in VECTORS)
    token = host.check_output("sudo sed -n s/^USER_AUTH_TOKEN=//p /etc/assisted/rendezvous-host.env")
    journal += f"{JOURNAL_TEXT} {token}\n"
    write(host, "/run/planted", journal)
    # In portions, since journald drops messages that come too fast.
    host.check_output("sudo sh -c 'systemd-cat -t %s cat /run/planted' && sudo journalctl --sync", UNIT)
    host.check_output("sudo rm /run/planted")
    for at in range(0, len(VECTORS), _BATCH):
        text = "\n---\n".join(vector.text for vector in VECTORS[at : at + _BATCH])
        write(host, f"{FOLDER}/planted-{at:03}.yaml", text)
    write(host, f"{FOLDER}/planted-install-config.yaml", INSTALL_CONFIG)
    write(host, "/etc/assisted/hostconfig/planted/fencing.yaml", INSTALL_CONFIG)
    write(host, "/run/agent-installer/planted.json", values.PULL_SECRET)
    field, value = values.NAMED["opaque token"]
    image = host.check_output("sudo podman images --noheading --format '{{.ID}}' | head -n 1")
    host.check_output("sudo podman create --name %s --env %s --env KEPT=kept %s", CONTAINER, f"{field}={value}", image)
    return len([line for line in journal.split("\n") if line])
