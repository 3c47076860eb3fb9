"""The sample agent-config.yaml that `create agent-config-template` writes."""

AGENT_CONFIG_TEMPLATE = """\
# A sample of agent-config.yaml that shows its fields. Change what you need, remove the rest: all fields are optional.
apiVersion: v1beta1
kind: AgentConfig
metadata:
  name: example-agent-config
  namespace: cluster0
# The IP of the host that leads the installation. Without it: the first static address of a master below.
rendezvousIP: your-node0-ip
# Where the files of boot-artifacts/ will be served from, for PXE and for minimal ISOs.
bootArtifactsBaseURL: http://user-specified-infra.com
minimalISO: false
additionalNTPSources:
- 0.pool.ntp.org
- 1.pool.ntp.org
hosts:
# Every host that is listed needs at least one interface, by whose MAC address it is known.
- hostname: change-to-hostname
  role: master
  # Which disk to install to. All hints that are given must match.
  rootDeviceHints:
    deviceName: /dev/sda
  interfaces:
    # networkConfig names the NIC by this name, whatever the kernel calls it.
    - macAddress: 00:00:00:00:00:00
      name: eth0
  # The host's network in NMState's form, see https://nmstate.io/examples.html. Without it: DHCP.
  networkConfig:
    interfaces:
      - name: eth0
        type: ethernet
        state: up
        mac-address: 00:00:00:00:00:00
        ipv4:
          enabled: true
          address:
            - ip: 192.168.122.2
              prefix-length: 23
          dhcp: false
    # A host without DHCP needs both.
    dns-resolver:
      config:
        server:
          - 192.168.122.1
    routes:
      config:
        - destination: 0.0.0.0/0
          next-hop-address: 192.168.122.1
          next-hop-interface: eth0
"""
