"""PreprovisioningImage: the image that a host of the converged flow boots, as its InfraEnv has it (hub.md §8).

In the field the image also holds Ironic's agent, which Metal3 has start the assisted one. node0 has no Ironic: its
image's agent starts by itself when the machine boots, which is what stands in for that call.
"""

from __future__ import annotations

from typing import Any

from installer.hub.conditions import Condition, condition
from installer.hub.kube.kinds import Json, annotations_of

#: The deploy method of hosts whose assisted agent is started by another: `spec.customDeploy.method`.
METHOD = "start_assisted_install"
#: The annotation of an InfraEnv that names the image of Ironic's agent.
OVERRIDE = "infraenv.agent-install.openshift.io/ironic-agent-image-override"
_FORMATS = ("iso", "initrd")
#: Architectures by their other names.
_NAMES = {"amd64": "x86_64", "arm64": "aarch64"}


def _normal(architecture: object) -> str:
    name = str(architecture or "x86_64")
    return _NAMES.get(name, name)


def _conditions(reason: str, message: str, *, is_error: bool = False, is_ready: bool = False) -> list[Condition]:
    return [
        Condition("Ready", str(is_ready), reason, message),
        Condition("Error", str(is_error), reason, message),
    ]


def conditions(image: Json, infra_env: Json | None, name: str, *, is_cool: bool) -> list[Condition]:
    """Return Ready and Error of an image whose InfraEnv is called ``name``; ``is_cool``: its inputs are settled."""
    spec = image.get("spec") or {}
    accepted = spec.get("acceptFormats") or []
    if not set(accepted) & set(_FORMATS):
        formats = ", ".join(accepted) or "none"
        text = f"spec.acceptFormats: {formats}: node0 makes {' and '.join(_FORMATS)}"
        return _conditions("UnsupportedImageFormat", text, is_error=True)
    if spec.get("networkDataName"):
        text = "spec.networkDataName: not offered: NMStateConfigs that the InfraEnv selects have the host's network"
        return _conditions("UnsupportedNetworkData", text, is_error=True)
    if infra_env is None:
        return _conditions("InfraEnvNotAvailable", f"InfraEnv {name} does not exist")
    wanted, made = _normal(spec.get("architecture")), _normal((infra_env.get("spec") or {}).get("cpuArchitecture"))
    if wanted != made:
        text = f"spec.architecture: {wanted}: InfraEnv {name} is for {made}"
        return _conditions("InfraEnvArchMismatch", text, is_error=True)
    if OVERRIDE in annotations_of(infra_env):
        text = f"annotation {OVERRIDE} of InfraEnv {name}: not offered: node0 puts no agent of Ironic into the image"
        return _conditions("IronicAgentIgnitionUpdateFailure", text, is_error=True)
    created = condition(infra_env, "ImageCreated")
    if created.get("status") != "True":
        if created.get("reason") == "ImageCreationError":
            return _conditions("ImageCreationError", str(created.get("message")), is_error=True)
        text = f"Waiting for the image of InfraEnv {name} to be created"
        return _conditions("WaitingForInfraEnvImageToBeCreated", text)
    if not is_cool:
        text = f"Waiting for the inputs of InfraEnv {name} to stay the same"
        return _conditions("WaitingForInfraEnvImageToCoolDown", text)
    return _conditions(str(created.get("reason")), str(created.get("message") or ""), is_ready=True)


def urls(image: Json, infra_env: Json) -> Json:
    """Return the members of the status that name the image, in the first format that the machine can boot."""
    spec, status = infra_env.get("spec") or {}, infra_env.get("status") or {}
    found: Json = {"architecture": spec.get("cpuArchitecture") or "x86_64"}
    if "iso" in image["spec"]["acceptFormats"]:
        return found | {"format": "iso", "imageUrl": status["isoDownloadURL"]}
    artifacts: dict[str, Any] = status["bootArtifacts"]
    edits = spec.get("kernelArguments") or ()
    arguments = [f"coreos.live.rootfs_url={artifacts['rootfs']}", "rd.bootif=0"]
    arguments += [edit["value"] for edit in edits if edit["operation"] == "append"]
    found |= {"format": "initrd", "imageUrl": artifacts["initrd"], "kernelUrl": artifacts["kernel"]}
    return found | {"extraKernelParams": " ".join(arguments)}


def ready_url(image: Json | None) -> str:
    """Return the ISO that a host is to boot; empty until it is ready."""
    status = (image or {}).get("status") or {}
    is_ready = condition(image or {}, "Ready").get("status") == "True" and status.get("format") == "iso"
    return str(status.get("imageUrl") or "") if is_ready else ""


def wanted(bmh: Json) -> Json:
    """Return the spec of the image of a BareMetalHost."""
    spec = bmh.get("spec") or {}
    hardware = (bmh.get("status") or {}).get("hardware") or {}
    architecture = spec.get("architecture") or (hardware.get("cpu") or {}).get("arch") or "x86_64"
    found: Json = {"acceptFormats": ["iso"], "architecture": architecture}
    return found | ({"networkDataName": name} if (name := spec.get("preprovisioningNetworkDataName")) else {})
