"""Values that fields of requests are given: right ones, and those that are wrong for this field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

NOBODY = "6d3f6d5a-0000-4000-8000-000000000000"
V4, V6 = "192.168.111.0/24", "fd2e:6f44:5dd8::/64"
#: What no field takes, or only some do.
ODD: tuple[Any, ...] = ("", None, 0, -1, True, [], {}, "x", ["x"], {"x": 1}, "x" * 300)
_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop test"
_SECRETS = (
    "{}",
    '{"auths":{}}',
    '{"auths":{"a":{}}}',
    '{"auths":{"a":{"auth":"!"}}}',
    '{"auths":{"a":{"auth":"YQ=="}}}',
)
_VIPS: tuple[Any, ...] = (
    [], [{"ip": "192.168.111.5"}], [{"ip": "192.168.111.4"}], [{"ip": "192.168.112.5"}], [{"ip": "192.168.111.20"}],
    [{"ip": "192.168.111.255"}], [{"ip": "x"}], [{"ip": "192.168.111.5"}] * 2, [{}],
)  # fmt: skip
_CIDRS: tuple[Any, ...] = (
    [], [{"cidr": V4}], [{"cidr": "192.168.112.0/24"}], [{"cidr": "192.168.0.0/16"}], [{"cidr": "192.168.111.0/25"}],
    [{"cidr": V4}, {"cidr": "192.168.112.0/24"}], [{"cidr": "172.30.0.0/28"}], [{"cidr": "10.128.0.0/16"}],
    [{"cidr": "x"}], [{"cidr": "192.168.111.7/24"}], [{"cidr": "192.168.111.0/31"}], [{}],
)  # fmt: skip
_PODS = (("10.128.0.0/14", 26), ("10.128.0.0/14", 33), ("10.128.0.0/23", 23), ("192.168.0.0/16", 23))
_PROXIES = (
    "http://a.example:3128",
    "https://a.example",
    "a.example",
    "ftp://a.example",
    "http://u:p@a.example",
    "http://",
)
CLUSTER: Mapping[str, Sequence[Any]] = {
    "name": ("good", "Bad", "a_b", "-a", "a.b", "a" * 54, "a" * 55),
    "base_dns_domain": ("a.example", "a", "-a.example", "a..example", "A.example", "a.example.", ""),
    "pull_secret": _SECRETS,
    "ssh_public_key": (_KEY, "ssh-rsa", f"{_KEY}\n{_KEY}", "ecdsa x"),
    "control_plane_count": (1, 2, 3, 4, 5, 6),
    "api_vips": _VIPS,
    "ingress_vips": _VIPS,
    "machine_networks": _CIDRS,
    "service_networks": _CIDRS,
    "cluster_networks": (*_CIDRS, *([{"cidr": cidr, "host_prefix": prefix}] for cidr, prefix in _PODS)),
    "http_proxy": _PROXIES,
    "https_proxy": _PROXIES,
    "no_proxy": ("*", "a.example,.b.example", "192.0.2.0/24", "a b", "*,a"),
    "additional_ntp_source": ("a.example", "192.0.2.1,b", "a b", ",", ""),
    "user_managed_networking": (True, False),
    "network_type": ("OVNKubernetes", "OpenShiftSDN", "Calico", "Cilium", "None", "Other"),
    "hyperthreading": ("all", "none", "masters", "some"),
    "schedulable_masters": (True, False),
    "platform": tuple({"type": kind} for kind in ("none", "baremetal", "vsphere", "nutanix", "external", "aws")),
    "load_balancer": ({"type": "user-managed"}, {"type": "cluster-managed"}, {"type": "x"}),
    "disk_encryption": tuple({"enable_on": on, "mode": mode} for on in ("all", "workers", "masters", "none", "some")
                             for mode in ("tpmv2", "tang")),
    "olm_operators": ([{"name": "lvm"}], [{"name": "nothing"}]),
    "nothing": ("x",),
    "openshift_version": ("4.20", "4.20.1", "4.99", "4", "latest", "4.20.1-multi"),
    "high_availability_mode": ("Full", "None", "Half"),
    "cpu_architecture": ("x86_64", "arm64", "aarch64", "sparc", "multi"),
}  # fmt: skip
INFRA_ENV: Mapping[str, Sequence[Any]] = {
    "pull_secret": _SECRETS,
    "ssh_authorized_key": (_KEY, "ssh-rsa"),
    "image_type": ("full-iso", "minimal-iso", "tiny-iso"),
    "additional_ntp_sources": ("a.example", "a b"),
    "additional_trust_bundle": ("x", "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----"),
    "ignition_config_override": ("{}", '{"ignition":{"version":"3.2.0"}}', "x", '{"ignition":{"version":"9.0.0"}}'),
    "proxy": ({"http_proxy": "http://a.example:1"}, {"http_proxy": "a"}, {"no_proxy": "a b"}),
    "static_network_config": ([{"network_yaml": "interfaces: []", "mac_interface_map": []}], [{"network_yaml": "{"}]),
    "kernel_arguments": ([{"operation": "append", "value": "a=b"}], [{"operation": "other", "value": "a"}]),
    "nothing": ("x",),
    "name": ("good",),
    "cluster_id": (NOBODY, "x"),
    "openshift_version": ("4.20", "4.99"),
    "cpu_architecture": ("x86_64", "arm64", "sparc"),
}
HOST: Mapping[str, Sequence[Any]] = {
    "host_role": ("master", "worker", "arbiter", "auto-assign", "bootstrap", "king"),
    "host_name": ("good", "localhost", "Bad", "a_b", "a" * 64, "a.b"),
    "disks_selected_config": ([{"id": "/dev/nothing", "role": "install"}], [{"id": "x", "role": "y"}], [{}]),
    "disks_skip_formatting": ([{"disk_id": "/dev/nothing", "skip_formatting": True}], [{}]),
    "machine_config_pool_name": ("worker", "a b"),
    "node_labels": (*([{"key": key, "value": "b"}] for key in ("a", "a b", "")), [{"key": "a"}]),
    "ignition_endpoint_http_headers": ([{"key": "a", "value": "b"}],),
    "fencing_credentials": ({"address": "redfish+https://192.0.2.1/x", "username": "a", "password": "b"}, {}),
    "nothing": ("x",),
}  # fmt: skip
INSTALLER_ARGS: Sequence[Any] = (["--append-karg", "a=b"], ["--rm-rf"], ["--append-karg"], ["x"], [], "x", None)
OUTPUTS = ("", "x", "{}", "[]", "null", '{"remote_hosts":[]}', '{"ntp_sources":[]}', '{"resolutions":[]}', "1", '"x"')
MANIFESTS: Sequence[Any] = (
    *({"file_name": name, "content": "YTogYg=="} for name in ("a.yaml", "a b.yaml", "a.txt", "a.json", "../a", ".a")),
    *({"file_name": "a.yaml", "content": content} for content in ("!", "e3s=")),
    *({"file_name": "a.yaml", "content": "YTogYg==", "folder": folder} for folder in ("manifests", "elsewhere")),
    {"content": "YTogYg=="}, {"file_name": "a.yaml"},
)  # fmt: skip
STAGES = ("Starting installation", "Writing image to disk", "Done", "Nothing", "", None, 1)
