"""PreprovisioningImages: each reason of their conditions, and the two formats."""

import pytest

from installer.hub.baremetal import pairing
from installer.hub.kube.kinds import BARE_METAL_HOST, INFRA_ENV, PREPROVISIONING_IMAGE, Key
from installer.hub.tables import preprovisioning as table

ISO, OLD = "https://service/new.iso", "https://service/old.iso"
ARTIFACTS = {"initrd": "https://service/initrd", "kernel": "https://service/kernel", "rootfs": "https://service/rootfs"}


def image(**spec):
    return PREPROVISIONING_IMAGE.new(Key("ns", "a"), spec={"acceptFormats": ["iso"], "architecture": "x86_64", **spec})


def env(status="True", reason="InfraEnvAvailable", annotations=(), **spec):
    created = {"type": "ImageCreated", "status": status, "reason": reason, "message": "said"}
    found = {"isoDownloadURL": ISO, "bootArtifacts": ARTIFACTS, "conditions": [created]}
    obj = INFRA_ENV.new(Key("ns", "env"), spec=spec, status=found)
    obj["metadata"]["annotations"] = dict(annotations)
    return obj


@pytest.mark.parametrize(
    ("obj", "infra_env", "is_cool", "wanted", "words"),
    [
        (image(), env(), True, ("True", "False", "InfraEnvAvailable"), "said"),
        (image(architecture="amd64"), env(), True, ("True", "False", "InfraEnvAvailable"), ""),
        (image(), env(), False, ("False", "False", "WaitingForInfraEnvImageToCoolDown"), "env"),
        (image(), env("Unknown"), True, ("False", "False", "WaitingForInfraEnvImageToBeCreated"), "env"),
        (image(), env("False", "ImageCreationError"), True, ("False", "True", "ImageCreationError"), "said"),
        (image(), None, True, ("False", "False", "InfraEnvNotAvailable"), "InfraEnv env does not exist"),
        (image(acceptFormats=[]), env(), True, ("False", "True", "UnsupportedImageFormat"), "none"),
        (image(acceptFormats=["qcow2"]), env(), True, ("False", "True", "UnsupportedImageFormat"), "qcow2"),
        (image(architecture="aarch64"), env(), True, ("False", "True", "InfraEnvArchMismatch"), "env is for x86_64"),
        (image(networkDataName="net"), env(), True, ("False", "True", "UnsupportedNetworkData"), "NMStateConfigs"),
        (
            image(),
            env(annotations={table.OVERRIDE: "quay.io/x"}),
            True,
            ("False", "True", "IronicAgentIgnitionUpdateFailure"),
            table.OVERRIDE,
        ),
    ],
)
def test_each_reason(obj, infra_env, is_cool, wanted, words):
    ready, error = table.conditions(obj, infra_env, "env", is_cool=is_cool)
    assert (ready.status, error.status, ready.reason) == wanted
    assert (ready.reason, ready.message) == (error.reason, error.message)
    assert words in ready.message


def test_an_iso_comes_before_an_initrd_which_has_the_arguments_of_the_infra_env():
    arguments = [{"operation": "append", "value": "a=1"}, {"operation": "delete", "value": "b"}]
    infra_env = env(kernelArguments=arguments)
    both = table.urls(image(acceptFormats=["initrd", "iso"]), infra_env)
    assert both == {"architecture": "x86_64", "format": "iso", "imageUrl": ISO}
    initrd = table.urls(image(acceptFormats=["initrd"]), infra_env)
    assert (initrd["imageUrl"], initrd["kernelUrl"]) == (ARTIFACTS["initrd"], ARTIFACTS["kernel"])
    assert initrd["extraKernelParams"] == f"coreos.live.rootfs_url={ARTIFACTS['rootfs']} rd.bootif=0 a=1"


def host(booted="", **spec):
    status = {"provisioning": {"state": "provisioned", "image": {"url": booted}}}
    obj = BARE_METAL_HOST.new(Key("ns", "a"), spec=spec, status=status)
    obj["metadata"]["labels"] = {pairing.INFRA_ENV: "env"}
    return obj


def test_hosts_with_an_image_stay_in_the_classic_flow_and_those_with_a_method_in_the_other():
    assert pairing.is_converged(host(), True)
    assert not pairing.is_converged(host(), False)
    assert not pairing.is_converged(host(image={"url": OLD}), True)
    assert pairing.is_converged(host(customDeploy={"method": table.METHOD}), False)


def test_a_host_keeps_the_image_that_it_runs_while_another_would_do_harm():
    ready = image() | {
        "status": {"format": "iso", "imageUrl": ISO, "conditions": [{"type": "Ready", "status": "True"}]}
    }
    installing = {"status": {"debugInfo": {"state": "installing"}, "progress": {}}}
    assert pairing.prepared_url(host(), ready, None) == ISO
    assert pairing.prepared_url(host(OLD), ready, None) == ISO
    assert pairing.prepared_url(host(OLD), ready, installing) == OLD
    assert pairing.prepared_url(host(OLD), image(), None) == OLD
    assert pairing.prepared_url(host(), None, None) == ""
