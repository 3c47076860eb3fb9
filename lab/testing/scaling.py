"""What tests of scaling share with others."""

from lab.release.cluster.installconfig import parse

CONFIG = parse(
    """
apiVersion: v1
metadata: {name: c}
baseDomain: d.example
controlPlane: {replicas: 3}
compute: [{name: worker, replicas: 1}]
networking: {machineNetwork: [{cidr: 127.77.0.0/24}]}
platform: {baremetal: {apiVIPs: [127.77.0.5], ingressVIPs: [127.77.0.4]}}
pullSecret: '{"auths":{}}'
"""
)
