"""Ordinary mistakes in a hub's resources: each is named on the object concerned within seconds, and nothing happens."""

import copy
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from drivers.protocols import PowerState
from lab.deploy import Deployment
from lab.errors import WaitTimeout
from lab.waiting import wait_until
from scenarios.testing.hub import operator
from scenarios.testing.hubresources import BMC_SECRET, IMAGE_SET, PULL_SECRET, Json, resources

#: Until a mistake is named; a BMC that accepts no connection may take 5 s a try, a release's registry longer.
NAMED_SECONDS = 60
ACI, BMH, ENV = "AgentClusterInstall", "BareMetalHost", "InfraEnv"
_OVERRIDES = "agent-install.openshift.io/install-config-overrides"
#: No machine of the lab has it.
_MAC = "52:54:00:aa:00:{:02x}"
_HARMLESS = re.compile(r"/SessionService/|/VirtualMedia\.EjectMedia$")

Documents = list[Json]


@dataclass(frozen=True)
class Mistake:
    """A mistake in a namespace's resources, the kind of the object that names it, and words of its condition there.

    `discovers`: hosts are rightly discovered meanwhile, so that there is to be none.
    """

    text: str
    kind: str
    says: str
    make: Callable[[Documents], object]
    discovers: bool = False


def _of(documents: Documents, kind: str, name: str = "") -> Json:
    return next(item for item in documents if item["kind"] == kind and name in ("", item["metadata"]["name"]))


def _without(kind: str, name: str) -> Callable[[Documents], object]:
    return lambda documents: documents.remove(_of(documents, kind, name))


def _with(kind: str, **members: object) -> Callable[[Documents], object]:
    return lambda documents: _of(documents, kind)["spec"].update(members)


def _bmc(**members: object) -> Callable[[Documents], object]:
    return lambda documents: _of(documents, BMH)["spec"]["bmc"].update(members)


def _wrong_password(documents: Documents) -> None:
    [login] = [item for item in documents if item["metadata"]["name"].startswith(f"{BMC_SECRET}-")]
    login["stringData"]["password"] = "not-this-one"


def _no_login(documents: Documents) -> None:
    documents[:] = [item for item in documents if not item["metadata"]["name"].startswith(f"{BMC_SECRET}-")]


def _twice(documents: Documents) -> None:
    second = copy.deepcopy(_of(documents, BMH))
    second["metadata"]["name"] = "second"
    documents.append(second)


def _no_profile(documents: Documents) -> None:
    config = _of(documents, "NMStateConfig")["spec"]["config"]
    config["dns-resolvers"] = config.pop("dns-resolver")


def _not_pulled(documents: Documents) -> None:
    release = _of(documents, "ClusterImageSet")
    release["metadata"]["name"] = "no-such-digest"
    release["spec"]["releaseImage"] = release["spec"]["releaseImage"].partition("@")[0] + "@sha256:" + "0" * 64
    _of(documents, ACI)["spec"]["imageSetRef"]["name"] = "no-such-digest"


def _no_json(documents: Documents) -> None:
    _of(documents, ACI)["metadata"]["annotations"] = {_OVERRIDES: "{fips: true}"}


MISTAKES = [
    Mistake("no pull secret", ACI, rf"InputError: .*Secret \S+/{PULL_SECRET}", _without("Secret", PULL_SECRET)),
    Mistake(
        "an image set that does not exist",
        ACI,
        "InputError: .*ClusterImageSet v9",
        _with(ACI, imageSetRef={"name": "v9"}),
    ),
    Mistake("a release that is not in the registry", ACI, "ClusterImageSet no-such-digest: ", _not_pulled),
    Mistake(
        "no ConfigMap of manifests",
        ACI,
        r"InputError: .*ConfigMap \S+/extra",
        _with(ACI, manifestsConfigMapRefs=[{"name": "extra"}]),
        discovers=True,
    ),
    Mistake("overrides that are no JSON", ACI, "InputError: .*overrides", _no_json, discovers=True),
    Mistake("a network of which no profile can be made", ENV, "NMStateConfig master-0: dns-resolvers", _no_profile),
    Mistake("a BMC's wrong password", BMH, r"registration error: .*refuses the account \(401\)", _wrong_password),
    Mistake("no Secret of the BMC", BMH, rf"registration error: .*Secret {BMC_SECRET}-master-0", _no_login),
    Mistake(
        "a BMC's own certificate",
        BMH,
        "registration error: .*certificate is not accepted",
        _bmc(disableCertificateVerification=False),
    ),
    Mistake("two hosts with one MAC address", BMH, "registration error: .*is also that of BareMetalHost", _twice),
]


@pytest.mark.nightly
@pytest.mark.parametrize("deployment", ["sno-ipv4-static-uefi-discovery_iso-hub-wrong_inputs"], indirect=True)
def test_each_mistake_is_named_where_it_is_and_nothing_is_touched(deployment: Deployment) -> None:
    lab, applied = deployment.lab, Documents()
    for number, mistake in enumerate(MISTAKES):
        documents = _in_namespace(resources(deployment), f"wrong-{number}", _MAC.format(number))
        mistake.make(documents)
        applied += [item for item in documents if item["kind"] != BMH or not mistake.discovers]
    with operator(deployment) as hub:
        hub.apply(applied)
        began, named = time.monotonic(), dict[str, float]()

        def all_named() -> bool:
            for number, mistake in enumerate(MISTAKES):
                items = hub.get(mistake.kind, "-n", f"wrong-{number}")["items"]
                if all(re.search(mistake.says, _says(item)) for item in items):
                    named.setdefault(mistake.text, time.monotonic() - began)
            return len(named) == len(MISTAKES)

        with lab.phase("mistakes named"):
            try:
                wait_until(all_named, NAMED_SECONDS, "all mistakes to be named", lambda: sorted(named), poll=1)
            except WaitTimeout:
                for number, mistake in enumerate(MISTAKES):
                    if mistake.text not in named:
                        items = hub.get(mistake.kind, "-n", f"wrong-{number}")["items"]
                        print(f"{mistake.text}: {[_says(item) for item in items]}")
                raise
        for text, seconds in named.items():
            print(f"{text}: named after {seconds:.0f} s")
        assert not hub.get("agents", "-A")["items"]
        login = lab.credentials
        everything = json.dumps(hub.get("agentclusterinstalls,infraenvs,baremetalhosts,events", "-A"))
        assert login.registry_password not in everything
        assert "not-this-one" not in everything
    assert {machine.power.state() for machine in lab.nodes.values()} == {PowerState.OFF}
    requests = [json.loads(line) for line in (lab.layout.log / "bmc-requests.jsonl").read_text().splitlines()]
    # Hosts of the wrong clusters are registered, for which one logs in and empties the drive, and not started.
    changes = [item for item in requests if item["method"] != "GET" and not _HARMLESS.search(item["path"])]
    assert changes == []


def _in_namespace(documents: Documents, namespace: str, mac: str) -> Documents:
    """Return a cluster's resources in another namespace, with one machine of another MAC address."""
    cluster = _of(documents, "ClusterDeployment")["metadata"]["namespace"]
    for item in documents:
        if item["kind"] == "Namespace":
            item["metadata"]["name"] = namespace
        elif item["metadata"].get("namespace") == cluster:
            item["metadata"]["namespace"] = namespace
        if item["kind"] == ENV:
            item["spec"]["clusterRef"]["namespace"] = namespace
        if item["kind"] == BMH:
            item["spec"]["bootMACAddress"] = mac
    assert _of(documents, "ClusterImageSet")["metadata"]["name"] == IMAGE_SET
    return documents


def _says(obj: Json) -> str:
    """Return an object's conditions that are not True, and a BareMetalHost's error."""
    status = obj.get("status") or {}
    lines = [
        f"{item['reason']}: {item.get('message', '')}"
        for item in status.get("conditions") or ()
        if item["status"] != "True"
    ]
    return "\n".join([*lines, f"{status.get('errorType', '')}: {status.get('errorMessage', '')}"])
