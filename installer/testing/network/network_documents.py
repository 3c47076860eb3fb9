"""NMState documents of our own for the tests of installer.network: each shows one thing, all are good."""

DOCUMENTS: dict[str, str] = {
    "static": """
interfaces:
- name: enp1s0
  type: ethernet
  state: up
  mac-address: 52:54:00:12:34:56
  mtu: 9000
  ipv4: {enabled: true, dhcp: false, address: [{ip: 10.20.0.5, prefix-length: 22}]}
  ipv6: {enabled: false}
dns-resolver: {config: {server: [10.20.0.1, 10.20.0.2], search: [lab.example, example], options: ["timeout:3", rotate]}}
routes: {config: [{destination: 0.0.0.0/0, next-hop-address: 10.20.0.1, next-hop-interface: enp1s0}]}
""",
    "dhcp": """
interfaces:
- {name: eno1, type: ethernet, ipv4: {enabled: true, dhcp: true}, ipv6: {enabled: true, dhcp: true, autoconf: true}}
""",
    "dhcp-options": """
interfaces:
- name: eno1
  type: ethernet
  wait-ip: ipv4
  ipv4:
    enabled: true
    dhcp: true
    auto-dns: false
    auto-routes: false
    auto-gateway: false
    auto-route-table-id: 120
    auto-route-metric: 77
    dhcp-client-id: iaid+duid
    dhcp-custom-hostname: node7.lab.example
  ipv6: {enabled: true, dhcp: true, autoconf: false, dhcp-duid: llt, dhcp-send-hostname: false}
- name: eno2
  type: ethernet
  ipv6: {enabled: true, dhcp: true, autoconf: true, token: "::5:6", addr-gen-mode: eui64}
- name: eno3
  type: ethernet
  ipv6: {enabled: true, addr-gen-mode: stable-privacy, address: [{ip: "fd00::3", prefix-length: 64}]}
dns-resolver: {config: {server: [9.9.9.9, "2620:fe::fe"], search: [lab.example]}}
""",
    "dual-stack": """
interfaces:
- name: eno1
  type: ethernet
  ipv4:
    enabled: true
    address: [{ip: 10.1.0.2, prefix-length: 24}, {ip: 10.1.1.2, prefix-length: "24"}, {ip: 10.9.9.9, prefix-length: 32}]
  ipv6: {enabled: true, address: [{ip: "FD00:0:0::10", prefix-length: 64}, {ip: "fd00:1::10", prefix-length: 48}]}
dns-resolver: {config: {server: ["fd00::1", 10.1.0.1], search: [v6.example]}}
routes:
  config:
  - {destination: "::/0", next-hop-address: "fd00::1", next-hop-interface: eno1, metric: "300"}
  - {destination: 0.0.0.0/0, next-hop-address: 10.1.0.1, next-hop-interface: eno1, metric: 100}
  - {destination: 172.16.5.9/12, next-hop-address: 10.1.0.9, next-hop-interface: eno1, table-id: 900, source: 10.1.1.2}
  - {destination: 172.16.5.9/12, next-hop-address: 10.1.0.9, next-hop-interface: eno1, table-id: 900, metric: 5}
  - {destination: 10.7.7.7, next-hop-interface: eno1, cwnd: 12}
""",
    "bond-vlan": """
interfaces:
- name: bond0
  type: bond
  mac-address: 02:00:00:00:01:00
  link-aggregation:
    mode: 802.3ad
    options: {miimon: "120", lacp_rate: fast, xmit_hash_policy: layer2+3, min_links: 1, ad_select: count}
    port: [eno1, eno2]
  ipv4: {enabled: false}
- {name: eno1, type: ethernet, mtu: 1600}
- {name: eno2, type: ethernet, mtu: 1600}
- name: bond0.42
  type: vlan
  mtu: 1500
  vlan: {base-iface: bond0, id: 42}
  ipv4: {enabled: true, address: [{ip: 10.42.0.7, prefix-length: 24}]}
- name: svc
  type: vlan
  vlan: {base-iface: eno3, id: 7, protocol: 802.1ad, reorder-headers: false, loose-binding: true,
         registration-protocol: gvrp}
  ipv6: {enabled: true, dhcp: true, autoconf: true}
routes: {config: [{destination: 0.0.0.0/0, next-hop-address: 10.42.0.1, next-hop-interface: bond0.42}]}
dns-resolver: {config: {server: [10.42.0.1]}}
""",
    "bond-backup": """
interfaces:
- name: bond1
  type: bond
  link-aggregation:
    mode: active-backup
    options: {arp_interval: 250, arp_ip_target: "10.0.0.1,10.0.0.2", arp_validate: 3, primary: eno6,
              primary_reselect: better, fail_over_mac: none, num_grat_arp: 3, num_unsol_na: 3, arp_all_targets: all,
              resend_igmp: 2, all_slaves_active: delivered}
    ports-config: [{name: eno5, queue-id: 3, priority: -4}, {name: eno6}]
  ipv4: {enabled: true, dhcp: true}
""",
    "by-mac": """
interfaces:
- {name: port-a, type: ethernet, identifier: mac-address, mac-address: 02:AA:00:00:00:01}
- {name: port-b, type: ethernet, identifier: mac-address, mac-address: 02-aa-00-00-00-02, profile-name: Second port}
- {name: bond0, type: bond, link-aggregation: {mode: 2, port: [port-a, port-b]}, ipv4: {enabled: true, dhcp: on}}
""",
    "bridge": """
interfaces:
- name: br-lan
  type: linux-bridge
  copy-mac-from: eno1
  ipv4: {enabled: true, address: [{ip: 10.3.0.1, prefix-length: 24}]}
  bridge:
    options:
      stp: {enabled: true, priority: 4096, hello-time: 3, max-age: 30, forward-delay: 10}
      group-forward-mask: 16384
      mac-ageing-time: 120
      multicast-snooping: false
      multicast-router: 2
      hash-max: 1024
      vlan-protocol: 802.1q
      vlan-default-pvid: 0
    port:
    - {name: eno1, stp-hairpin-mode: true, stp-path-cost: 40, stp-priority: 20}
    - {name: eno2, vlan: {mode: access, tag: 12}}
    - name: eno3
      vlan: {mode: trunk, enable-native: true, tag: 9, trunk-tags: [{id-range: {min: 20, max: 29}}, {id: 15}]}
- {name: eno1, type: ethernet, mac-address: 02:00:00:00:03:01}
""",
    "policy-routing": """
interfaces:
- {name: eno1, type: ethernet, ipv4: {enabled: true, address: [{ip: 10.5.0.2, prefix-length: 24}]}}
- {name: eno2, type: ethernet, ipv4: {enabled: true, address: [{ip: 10.6.0.2, prefix-length: 24}]},
   ipv6: {enabled: true, address: [{ip: "fd06::2", prefix-length: 64}]}}
routes:
  config:
  - {destination: 0.0.0.0/0, next-hop-address: 10.5.0.1, next-hop-interface: eno1}
  - {destination: 0.0.0.0/0, next-hop-address: 10.6.0.1, next-hop-interface: eno2, table-id: 200}
  - {destination: 192.0.2.0/24, route-type: blackhole}
route-rules:
  config:
  - {ip-from: 10.6.0.0/24, route-table: 200, priority: 500}
  - {ip-to: 198.51.100.7, route-table: 200}
  - {ip-from: "fd06::/64", ip-to: "fd99::/64", route-table: 254, priority: 600}
  - {family: ipv4, iif: eno1, action: prohibit, priority: 40000, fwmark: "0x10", fwmask: 255}
  - {family: ipv4, route-table: 254, suppress-prefix-length: 0}
""",
    "states": """
interfaces:
- {name: eno1, type: ethernet, state: down}
- {name: eno2, type: ethernet, state: absent}
- {name: eno3, type: ethernet, state: ignore}
- {name: eno4, ipv4: {enabled: true, dhcp: true}}
- {name: eno5, type: ethernet, ipv6: {enabled: true}}
- {name: eno6, type: ethernet, ipv4: {enabled: true}, description: "uplink; C:\\\\spare"}
""",
    "hardware": """
interfaces:
- name: eno1
  type: ethernet
  accept-all-mac-addresses: true
  lldp: {enabled: true}
  ethernet:
    auto-negotiation: false
    speed: 10000
    duplex: full
    sr-iov:
      total-vfs: 4
      drivers-autoprobe: false
      vfs: [{id: 0, mac-address: "02:00:00:00:0f:00", spoof-check: true, trust: false, vlan-id: 44, qos: 2},
            {id: 3, max-tx-rate: 500, min-tx-rate: 10}]
  ethtool:
    feature: {rx-checksum: true, tso: false, highdma: true}
    pause: {autoneg: false, rx: true, tx: true}
    ring: {rx: 1024, tx: 512}
    coalesce: {rx-usecs: 30, adaptive-rx: false, adaptive-tx: true}
- {name: eno2, type: ethernet, ethernet: {auto-negotiation: true}}
""",
    "802.1x": """
interfaces:
- name: eno1
  type: ethernet
  802.1x: {identity: host7, eap-methods: [tls], private-key: /etc/pki/h.key, client-cert: /etc/pki/h.crt,
           ca-cert: /etc/pki/ca.crt, private-key-password: "a;b=c"}
  ipv4: {enabled: true, dhcp: true}
""",
    "virtual": """
interfaces:
- {name: dummy0, type: dummy, ipv4: {enabled: true, address: [{ip: 10.8.0.1, prefix-length: 32}]}}
- {name: veth-a, type: veth, veth: {peer: veth-b}}
- {name: vrf1, type: vrf, vrf: {port: [eno1], route-table-id: 100}}
- {name: eno1, type: ethernet, ipv4: {enabled: true, address: [{ip: 10.9.0.1, prefix-length: 24}]}}
- {name: vx5, type: vxlan, vxlan: {id: 5, base-iface: eno1, remote: 10.9.0.2, local: 10.9.0.1, destination-port: 4789,
   learning: false}}
- {name: mv0, type: mac-vlan, mac-vlan: {base-iface: eno2, mode: bridge}}
- {name: mt0, type: mac-vtap, mac-vtap: {base-iface: eno2, mode: passthru, promiscuous: false}}
- {name: ib0, type: infiniband, mtu: 2044, infiniband: {mode: datagram, pkey: "0xffff"}}
- {name: ib0.8001, type: infiniband, infiniband: {mode: connected, base-iface: ib0, pkey: "0x8001"}}
""",
    "ovs": """
interfaces:
- name: br-ex
  type: ovs-bridge
  ovs-db: {external_ids: {owner: lab}}
  bridge:
    options: {stp: {enabled: false}, rstp: true, mcast-snooping-enable: true, fail-mode: secure}
    port:
    - {name: eno1}
    - {name: br-ex}
    - {name: patch1}
    - {name: trunk7, vlan: {mode: trunk, trunk-tags: [{id: 3}, {id-range: {min: 10, max: 12}}]},
       link-aggregation: {mode: balance-tcp, bond-updelay: 100, bond-downdelay: 50, port: [{name: eno2}, {name: eno3}]}}
- {name: br-ex, type: ovs-interface, copy-mac-from: eno1, ipv4: {enabled: true, dhcp: true}}
- {name: patch1, type: ovs-interface, patch: {peer: patch0}}
- {name: eno1, type: ethernet, mac-address: 02:00:00:00:0e:01}
""",
    "nothing": "interfaces: []\n",
}

#: A document with an interface of most kinds, in which nothing is wrong.
GOOD = """
interfaces:
- {name: eno1, type: ethernet, state: up,
   ipv4: {enabled: true, address: [{ip: 10.0.0.2, prefix-length: 24}]},
   ipv6: {enabled: true, dhcp: true, autoconf: true}}
- {name: eno2, type: ethernet}
- {name: eno3, type: ethernet, ipv4: {enabled: true, dhcp: true}}
- {name: bond0, type: bond, link-aggregation: {mode: active-backup, port: [eno2], options: {miimon: 100}}}
- {name: br0, type: linux-bridge, bridge: {options: {stp: {enabled: false}}, port: [{name: eno4}]}}
- {name: vlan7, type: vlan, vlan: {base-iface: bond0, id: 7}}
routes:
  config: [{destination: 0.0.0.0/0, next-hop-address: 10.0.0.1, next-hop-interface: eno1}]
route-rules:
  config: [{ip-from: 10.0.0.0/24, route-table: 254}]
dns-resolver:
  config: {server: [10.0.0.1]}
"""
