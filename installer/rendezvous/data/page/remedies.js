/* For each validation that can prevent an installation: what to do, in which step, and at which field. */
const HOST = "hosts", NET = "networking", IMAGE = "image", DETAILS = "details";
const TABLE = {
  "connected": [HOST, "Is the host switched on, and does it reach this service? Its console shows the agent's log."],
  "media-connected": [HOST, "Connect the virtual media again, or boot the host from the image once more."],
  "has-inventory": [HOST, "Wait a minute; if it stays so, look at the agent's log on the host's console."],
  "has-min-cpu-cores": [HOST, "Give the machine more processors, or use another one."],
  "has-cpu-cores-for-role": [HOST, "Choose another role for the host, or give it more processors.", "host_role"],
  "has-min-memory": [HOST, "Give the machine more memory, or use another one."],
  "has-memory-for-role": [HOST, "Choose another role for the host, or give it more memory.", "host_role"],
  "has-min-valid-disks": [HOST, "Choose another installation disk, or add one that is large enough. The inventory says why each is not eligible.", "disk"],
  "sufficient-installation-disk-speed": [HOST, "Choose a faster disk: etcd needs it.", "disk"],
  "no-skip-installation-disk": [HOST, "Choose an installation disk that may be formatted.", "disk"],
  "no-skip-missing-disk": [HOST, "A disk that is to be left alone is missing: connect it."],
  "hostname-unique": [HOST, "Give one of the hosts another name.", "host_name"],
  "hostname-valid": [HOST, "Give the host a name of its own: localhost and the like are refused.", "host_name"],
  "ntp-synced": [IMAGE, "Name NTP sources that the hosts reach, or correct the clock in the firmware.", "additional_ntp_sources"],
  "time-synced-between-host-and-service": [IMAGE, "Correct the clock of the host or of this service.", "additional_ntp_sources"],
  "container-images-available": [DETAILS, "Do the hosts reach the registry, or its mirror, with this pull secret?", "pull_secret"],
  "machine-cidr-defined": [NET, "Enter the network of the hosts' addresses.", "machine_networks"],
  "belongs-to-machine-cidr": [NET, "Enter a machine network that the host has an address in, or give it such an address.", "machine_networks"],
  "belongs-to-majority-group": [NET, "The host does not reach the others: look at VLANs, MTU, firewalls and addresses."],
  "has-default-route": [IMAGE, "Give the host a default route: by DHCP or a static network.", "static_network_config"],
  "api-domain-name-resolved-correctly": [NET, "Put api.CLUSTER.DOMAIN into the DNS that the hosts ask."],
  "api-int-domain-name-resolved-correctly": [NET, "Put api-int.CLUSTER.DOMAIN into the DNS that the hosts ask."],
  "apps-domain-name-resolved-correctly": [NET, "Put *.apps.CLUSTER.DOMAIN into the DNS that the hosts ask."],
  "release-domain-name-resolved-correctly": [NET, "The hosts' DNS must know the registry's name."],
  "dns-wildcard-not-configured": [NET, "Remove the wildcard entry *.CLUSTER.DOMAIN from the DNS."],
  "non-overlapping-subnets": [IMAGE, "Two NICs of the host are in overlapping networks: change one of them.", "static_network_config"],
  "no-ip-collisions-in-network": [IMAGE, "Two machines have one address: give one of them another.", "static_network_config"],
  "mtu-valid": [IMAGE, "Give all NICs and switches of the network the same MTU.", "static_network_config"],
  "sufficient-network-latency-requirement-for-role": [NET, "The network between the hosts is too slow for this role."],
  "sufficient-packet-loss-requirement-for-role": [NET, "The network between the hosts loses packets."],
  "compatible-with-cluster-platform": [DETAILS, "Choose a platform that the host's hardware is of.", "platform"],
  "valid-platform-network-settings": [DETAILS, "Choose a platform that fits the host's network.", "platform"],
  "disk-encryption-requirements-satisfied": [HOST, "Enable the TPM in the host's firmware, or the Tang servers must answer."],
  "ignition-downloadable": [NET, "The host must reach the machine config server of the cluster."],
  "compatible-agent": [IMAGE, "Boot the host from an image that is downloaded now."],
  "vsphere-disk-uuid-enabled": [HOST, "Set disk.EnableUUID of the virtual machine."],
  "no-iscsi-nic-belongs-to-machine-cidr": [NET, "An iSCSI disk's NIC must be outside of the machine network.", "machine_networks"],
  "inventory-not-partially-truncated": [HOST, "The host's inventory is too long: remove disks or NICs that are not needed."],
  "inventory-not-fully-truncated": [HOST, "The host's inventory is too long: remove disks or NICs that are not needed."],
  "cluster-cidr-defined": [NET, "Enter a network for pods.", "cluster_networks"],
  "service-cidr-defined": [NET, "Enter a network for services.", "service_networks"],
  "no-cidrs-overlapping": [NET, "Choose networks of machines, pods and services that do not overlap.", "cluster_networks"],
  "networks-same-address-families": [NET, "Machines, pods and services need networks of the same address families.", "cluster_networks"],
  "network-prefix-valid": [NET, "Choose a host prefix that leaves each host enough addresses.", "cluster_networks"],
  "machine-cidr-equals-to-calculated-cidr": [NET, "The virtual addresses must be in the machine network.", "machine_networks"],
  "api-vips-defined": [NET, "Enter a free address of the machine network.", "api_vips"],
  "api-vips-valid": [NET, "Choose an address of the machine network that nobody has.", "api_vips"],
  "ingress-vips-defined": [NET, "Enter another free address of the machine network.", "ingress_vips"],
  "ingress-vips-valid": [NET, "Choose an address of the machine network that nobody has.", "ingress_vips"],
  "all-hosts-are-ready-to-install": [HOST, "Correct what does not hold at the hosts, or remove them."],
  "sufficient-masters-count": [HOST, "Boot more hosts, or choose roles so that there are as many control plane nodes as the cluster has."],
  "dns-domain-defined": [DETAILS, "Enter a base domain.", "base_dns_domain"],
  "pull-secret-set": [DETAILS, "Enter a pull secret.", "pull_secret"],
  "ntp-server-configured": [DETAILS, "Enter an NTP source.", "additional_ntp_source"],
  "network-type-valid": [NET, "Choose networks that this type of network offers.", "cluster_networks"],
  "custom-manifests-requirements-satisfied": ["manifests", "Correct or remove the manifest that is named."],
  "platform-requirements-satisfied": [DETAILS, "Choose another platform.", "platform"],
};

/* {step, text, field}, or null for a validation without one. */
export function remedyOf(id) {
  const row = TABLE[id];
  if (row) return { step: row[0], text: row[1], field: row[2] || "" };
  return id.endsWith("-requirements-satisfied") ? { step: HOST, text: "The message says what this operator needs.", field: "" } : null;
}

/* The failing validations of a step, by the field that each is about; what the service has said of the form comes first. */
export function besideFields(step, validations, said = {}) {
  const found = { ...said };
  for (const item of validations) {
    const remedy = item.status === "failure" || item.status === "error" ? remedyOf(item.id) : null;
    if (remedy?.step !== step || !remedy.field || said[remedy.field]) continue;
    const text = (item.message || item.id).replace(/\.?$/, ". ") + remedy.text;
    if (!(found[remedy.field] || "").includes(remedy.text)) found[remedy.field] = [found[remedy.field], text].filter(Boolean).join(" ");
  }
  return found;
}
