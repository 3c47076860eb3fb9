"""The sample install-config.yaml that `create install-config` writes."""

INSTALL_CONFIG_TEMPLATE = """\
# A sample of install-config.yaml for machines that you boot yourself, behind a load balancer of your own (UPI).
# Fill in what is in <angle brackets>. Keep a copy: `node0 create` consumes the file.
apiVersion: v1
metadata:
  # The cluster is api.NAME.DOMAIN, api-int.NAME.DOMAIN and *.apps.NAME.DOMAIN in your DNS.
  name: <name>
baseDomain: <domain>
controlPlane:
  name: master
  # 3, or 1 for a control plane without a spare.
  replicas: 3
compute:
- name: worker
  # Workers join when you approve their certificates; without workers, masters do their work.
  replicas: 0
networking:
  networkType: OVNKubernetes
  machineNetwork:
  - cidr: <network of the machines, as 192.168.1.0/24>
  clusterNetwork:
  - cidr: 10.128.0.0/14
    hostPrefix: 23
  serviceNetwork:
  - 172.30.0.0/16
platform:
  none: {}
# For `create single-node-ignition-config` alone, with controlPlane.replicas: 1
# bootstrapInPlace:
#   installationDisk: /dev/sda
pullSecret: '<pull secret>'
sshKey: '<public key>'
"""
