import pytest

from installer.hub.baremetal import pairing
from installer.hub.kube.kinds import AGENT, BARE_METAL_HOST, INFRA_ENV, NMSTATE_CONFIG, Key

URL, OTHER = "http://service/one.iso", "http://service/two.iso"
BMAC = "bmac.agent-install.openshift.io"
PAUSED, DETACHED = "baremetalhost.metal3.io/paused", "baremetalhost.metal3.io/detached"


def bmh(name="a", mac="00:00:5E:00:53:01", *, state="available", namespace="ns", annotations=None, **spec):
    obj = BARE_METAL_HOST.new(
        Key(namespace, name), spec={"bootMACAddress": mac, **spec},
        status={"operationalStatus": "OK", "provisioning": {"state": state}},
    )  # fmt: skip
    obj["metadata"] |= {"labels": {pairing.INFRA_ENV: "env"}, "annotations": annotations or {}}
    return obj


def agent(name="agent", mac="00:00:5e:00:53:01", *, created="2026-01-01T00:00:00Z", bound="", stage="", **more):
    inventory = {"interfaces": [{"macAddress": mac}], **more}
    conditions = [{"type": "Bound", "reason": bound}]
    status = {"inventory": inventory, "progress": {"currentStage": stage}, "conditions": conditions}
    obj = AGENT.new(Key("ns", name), spec={}, status=status)
    obj["metadata"]["creationTimestamp"] = created
    return obj


def env(url=URL, made="True", **spec):
    status = {"isoDownloadURL": url, "conditions": [{"type": "ImageCreated", "status": made}]}
    return INFRA_ENV.new(Key("ns", "env"), spec=spec, status=status)


def image_of(host, infra_env, its_agent=None, *, is_quiet=True):
    return pairing.bmh_change(host, infra_env, its_agent, is_quiet=is_quiet).get("spec", {}).get("image", "kept")


def test_of_several_agents_with_the_mac_in_the_namespace_the_newest_is_the_hosts():
    old, new = agent("old", created="2026-01-01T00:00:00Z"), agent("new", created="2026-01-02T00:00:00Z")
    assert pairing.agent_for(bmh(), [new, old, agent("other", mac="00:00:5e:00:53:02")]) == new
    assert pairing.agent_for(bmh(namespace="other"), [new]) is None
    assert pairing.agent_for(bmh(mac=None), [agent(mac="")]) is None


def test_hosts_with_one_mac_name_each_other():
    hosts = [
        bmh("a"),
        bmh("b", mac="00:00:5e:00:53:01"),
        bmh("c", namespace="other"),
        bmh("d", mac="02:00:00:00:00:01"),
    ]
    assert "BareMetalHost b:" in pairing.same_mac(hosts[0], hosts)
    assert "BareMetalHost a:" in pairing.same_mac(hosts[1], hosts)
    assert not pairing.same_mac(hosts[2], hosts)
    assert not pairing.same_mac(hosts[3], hosts)


def test_an_image_goes_in_once_it_is_made_and_that_of_its_inputs():
    assert image_of(bmh(), env()) == {"url": URL, "format": "live-iso"}
    assert image_of(bmh(), env(), is_quiet=False) == "kept"
    assert image_of(bmh(), env(made="False")) == "kept"
    assert image_of(bmh(state="registering"), env()) == "kept"
    assert image_of(bmh(annotations={DETACHED: "user"}), env()) == "kept"


def test_another_image_goes_in_only_after_the_old_one_is_out():
    running = bmh(state="provisioned", image={"url": URL})
    assert image_of(running, env(OTHER)) is None
    assert image_of(bmh(state="deprovisioning"), env(OTHER)) == "kept"
    assert image_of(bmh(), env(OTHER))["url"] == OTHER


@pytest.mark.parametrize("its_agent", [agent(stage="Writing image to disk"), {"state": "preparing-for-installation"}])
def test_an_installation_is_not_broken_off_for_another_image(its_agent):
    if "state" in its_agent:
        its_agent = agent() | {"status": {"debugInfo": its_agent}}
    assert image_of(bmh(state="provisioned", image={"url": URL}), env(OTHER), its_agent) == "kept"


def test_freshness_ends_with_a_new_image_or_the_time_to_make_one():
    fresh, key = pairing.Freshness(10.0), Key("ns", "env")
    assert fresh.wait(key, "two configs", "", 0.0) == 10.0
    assert fresh.wait(key, "two configs", URL, 3.0) == 0.0
    assert fresh.wait(key, "three configs", URL, 20.0) == 10.0
    assert fresh.wait(key, "three configs", URL, 24.0) == 6.0
    assert fresh.wait(key, "three configs", OTHER, 26.0) == 0.0
    assert fresh.wait(key, "four configs", OTHER, 40.0) == 10.0
    assert fresh.wait(key, "four configs", OTHER, 50.0) == 0.0


def test_inputs_are_the_spec_and_the_configs_that_it_selects():
    def config(name, namespace="ns", label="x"):
        obj = NMSTATE_CONFIG.new(Key(namespace, name), spec={})
        obj["metadata"] |= {"labels": {"env": label}, "generation": 1}
        return obj

    selecting = env(nmStateConfigLabelSelector={"matchLabels": {"env": "x"}})
    before = pairing.inputs_of(selecting, [config("a")])
    assert before == pairing.inputs_of(selecting, [config("a"), config("b", "other"), config("c", label="y")])
    assert before != pairing.inputs_of(selecting, [config("a"), config("b")])


def test_power_is_handed_over_at_the_reboot_and_back_when_the_host_is_unbound():
    host = bmh(state="provisioned", image={"url": URL})
    change = pairing.bmh_change(host, env(), agent(stage="Rebooting"), is_quiet=True)
    assert change["metadata"]["annotations"][DETACHED] == pairing.BY_US
    host["metadata"]["annotations"] = {DETACHED: pairing.BY_US}
    assert "annotations" not in pairing.bmh_change(host, env(), agent(stage="Done"), is_quiet=True)["metadata"]
    host["status"]["operationalStatus"] = "detached"
    change = pairing.bmh_change(host, env(), agent(stage="Done"), is_quiet=True)
    assert change["metadata"]["annotations"].keys() == {PAUSED, "baremetalhost.metal3.io/status"}
    host["metadata"]["annotations"] |= change["metadata"]["annotations"]
    unbound = agent(stage="Done", bound="UnbindingPendingUserAction")
    change = pairing.bmh_change(host, env(), unbound, is_quiet=True)
    assert change["spec"] == {"image": None}
    assert change["metadata"]["annotations"] == {PAUSED: None, DETACHED: None}
    # It registers only once it has booted the image again.
    assert image_of(bmh(), env(), unbound)["url"] == URL
    late = agent(stage="Done")
    late["status"]["debugInfo"] = {"state": "known-unbound"}
    assert DETACHED not in str(pairing.bmh_change(bmh(), env(), late, is_quiet=True))
    managed = bmh(state="provisioned", annotations={f"{BMAC}/allow-provisioned-host-management": ""})
    assert DETACHED not in str(pairing.bmh_change(managed, env(URL), agent(stage="Done"), is_quiet=True))


def test_a_host_that_leaves_a_cancelled_installation_boots_once_more():
    """It is not detached before its reboot: one boot since the Agent waits for it is enough."""
    leaving = agent(stage="Waiting for bootkube", bound="UnbindingPendingUserAction")
    leaving["status"]["conditions"][0]["lastTransitionTime"] = "2026-11-28T16:03:59Z"
    host = bmh(state="provisioned", image={"url": URL})
    for booted, image in (("2026-11-28T16:03:42Z", None), ("2026-11-28T16:04:08Z", "kept")):
        host["status"]["operationHistory"] = {"provision": {"start": booted, "end": None}}
        assert image_of(host, env(), leaving) == image
    assert image_of(host, env(), agent(stage="Waiting for bootkube")) == "kept"


def test_a_live_host_whose_agent_is_deleted_boots_again_and_an_installed_one_does_not():
    host = bmh(state="provisioned", image={"url": URL})
    change = pairing.bmh_change(host, env(), agent(), is_quiet=True)
    assert change["metadata"]["annotations"][pairing.LIVE] == "agent"
    host["metadata"]["annotations"][pairing.LIVE] = "agent"
    change = pairing.bmh_change(host, env(), None, is_quiet=True, is_lost=True)
    assert (change["spec"]["image"], change["metadata"]["annotations"][pairing.LIVE]) == (None, None)
    change = pairing.bmh_change(host, env(), agent(stage="Rebooting"), is_quiet=True)
    assert change["metadata"]["annotations"][pairing.LIVE] is None
    host["metadata"]["annotations"][DETACHED] = pairing.BY_US
    assert "image" not in pairing.bmh_change(host, env(), None, is_quiet=True, is_lost=True).get("spec", {})


@pytest.mark.parametrize("has_booted", [False, True])
def test_a_failed_host_is_the_clusters_only_if_it_has_booted_from_its_disk(has_booted):
    host = bmh(state="provisioned", image={"url": URL}, annotations={} if has_booted else {pairing.LIVE: "agent"})
    if has_booted:
        host["metadata"]["annotations"][DETACHED] = pairing.BY_US
    failed = agent(stage="Failed")
    failed["status"]["debugInfo"] = {"state": "error"}
    annotations = pairing.bmh_change(host, env(), failed, is_quiet=True)["metadata"].get("annotations", {})
    assert not annotations.keys() & {DETACHED, pairing.LIVE}
    lost = pairing.bmh_change(host, env(), None, is_quiet=True, is_lost=not has_booted).get("spec", {})
    assert ("image" in lost) is not has_booted


def test_disks_are_chosen_by_hints_and_never_any_without_a_fit():
    disks = [
        {"id": name, "byPath": f"/dev/disk/by-path/{name}", "sizeBytes": size << 30, "driveType": kind,
         "installationEligibility": {"eligible": name != "small"}}
        for name, size, kind in (("small", 1, "SSD"), ("fast", 100, "SSD"), ("slow", 900, "HDD"))
    ]  # fmt: skip

    def chosen(**hints):
        change, _ = pairing.agent_change(bmh(rootDeviceHints=hints), agent(disks=disks), None)
        return change["spec"].get("installation_disk_id")

    assert chosen() is None
    assert chosen(rotational=True) == "slow"
    assert chosen(minSizeGigabytes=50) == "fast"
    assert chosen(deviceName="/dev/disk/by-path/slow") == "slow"
    assert chosen(deviceName="/dev/disk/by-path/small") == "/dev/not-found-by-hints"


def test_node_labels_are_a_set_and_the_agents_labels_are_added():
    its_agent = agent()
    its_agent["spec"]["nodeLabels"] = {"old": "x", "kept": "y"}
    its_agent["metadata"]["labels"] = {"own": "z"}
    annotations = {f"{BMAC}.node-label.kept": "y", f"{BMAC}.agent-label.site": "s"}
    change, problem = pairing.agent_change(bmh(annotations=annotations), its_agent, env())
    assert (change["spec"]["nodeLabels"], problem) == ({"old": None, "kept": "y"}, "")
    assert change["metadata"]["labels"] == {"agent-install.openshift.io/bmh": "a", "site": "s"}


@pytest.mark.parametrize(
    ("reference", "cluster_ref", "spec", "problem"),
    [
        ("other/cluster", None, {"clusterDeploymentName": {"namespace": "other", "name": "cluster"}}, ""),
        ("", None, {"clusterDeploymentName": None}, ""),
        ("cluster", None, {}, "'cluster' is not NAMESPACE/NAME"),
        ("other/cluster", {"name": "own"}, {}, "InfraEnv env has a clusterRef, own, already"),
    ],
)
def test_cluster_references(reference, cluster_ref, spec, problem):
    its_agent = agent()
    its_agent["spec"] = {"approved": True, "clusterDeploymentName": {"namespace": "ns", "name": "before"}}
    host = bmh(annotations={pairing.CLUSTER_REFERENCE: reference})
    change, said = pairing.agent_change(host, its_agent, env(clusterRef=cluster_ref) if cluster_ref else env())
    assert change.get("spec", {}) == spec
    assert problem in said


def test_what_is_as_wanted_is_not_written():
    host = bmh()
    change, _ = pairing.agent_change(host, (its_agent := agent()), env())
    its_agent["spec"] |= change["spec"]
    its_agent["metadata"]["labels"] = change["metadata"]["labels"]
    assert pairing.agent_change(host, its_agent, env()) == ({}, "")
    change = pairing.bmh_change(host, env(), its_agent, is_quiet=True)
    host["metadata"] |= {
        name: host["metadata"].get(name, {}) | change["metadata"][name] for name in ("labels", "annotations")
    }
    host["metadata"]["finalizers"] = change["metadata"]["finalizers"]
    host["spec"] |= change["spec"]
    assert pairing.bmh_change(host, env(), its_agent, is_quiet=True) == {}
    gone = pairing.farewell(host)
    assert gone == {"metadata": {"finalizers": [pairing.METAL3_FINALIZER]}}


def test_a_backup_label_of_another_value_is_its_owners():
    """ZTP renders `cluster-activation`, and would render it again for ever."""
    host = bmh()
    host["metadata"]["labels"][pairing.BACKUP] = "cluster-activation"
    assert "labels" not in pairing.bmh_change(host, env(), None, is_quiet=True)["metadata"]
