/* Static networks of an infra-env: one entry for each host, as a form for the common case and as NMState's YAML. */
import { mayChange } from "../api.js";
import { html, useState } from "../vendor/preact-htm.js";

const EMPTY = { mac: "", nic: "eno1", vlan: "", address: "", gateway: "", dns: "" };

/* The API has JSON in a text. */
export const read = (text) => JSON.parse(text || "[]").map(({ network_yaml, mac_interface_map }) => ({
  network_yaml, mac_interface_map: (mac_interface_map || []).map(({ mac_address, logical_nic_name }) => ({ mac_address, logical_nic_name })),
}));

const family = (address) => (address.includes(":") ? "ipv6" : "ipv4");
const list = (text) => text.split(/[\s,]+/).filter(Boolean);

/* The NMState document of the form's fields: one NIC, a VLAN on it or none, addresses of one or both families. */
function documentOf(fields) {
  const name = fields.vlan ? fields.nic + "." + fields.vlan : fields.nic;
  const addresses = list(fields.address), lines = ["interfaces:"];
  if (fields.vlan) lines.push("- name: " + fields.nic, "  type: ethernet", "  state: up");
  lines.push("- name: " + name, "  type: " + (fields.vlan ? "vlan" : "ethernet"), "  state: up");
  if (fields.vlan) lines.push("  vlan:", "    base-iface: " + fields.nic, "    id: " + fields.vlan);
  for (const kind of ["ipv4", "ipv6"]) {
    const own = addresses.filter((address) => family(address) === kind);
    lines.push("  " + kind + ":", "    enabled: " + (own.length > 0));
    if (own.length) lines.push("    dhcp: false", ...(kind === "ipv6" ? ["    autoconf: false"] : []), "    address:");
    for (const address of own) {
      const [ip, prefix] = address.split("/");
      lines.push("    - ip: " + JSON.stringify(ip), "      prefix-length: " + prefix);
    }
  }
  const servers = list(fields.dns), gateways = list(fields.gateway);
  if (servers.length) lines.push("dns-resolver:", "  config:", "    server:", ...servers.map((item) => "    - " + JSON.stringify(item)));
  if (gateways.length) lines.push("routes:", "  config:");
  for (const gateway of gateways) {
    lines.push("  - destination: " + (family(gateway) === "ipv6" ? '"::/0"' : "0.0.0.0/0"), "    next-hop-address: " + JSON.stringify(gateway),
      "    next-hop-interface: " + name, "    table-id: 254");
  }
  return lines.join("\n") + "\n";
}

/* Why the form's fields make no document; empty when they do. */
function problemOf(fields) {
  if (!/^([0-9a-f]{2}:){5}[0-9a-f]{2}$/i.test(fields.mac)) return "MAC address: six pairs of hexadecimal digits with colons";
  if (!/^[^\s/:]{1,15}$/.test(fields.nic)) return "NIC: a name of at most 15 characters";
  if (fields.vlan && !(/^\d+$/.test(fields.vlan) && fields.vlan >= 1 && fields.vlan <= 4094)) return "VLAN: 1 to 4094";
  const addresses = list(fields.address);
  if (!addresses.length || addresses.some((item) => !/^[0-9a-f.:]+\/\d{1,3}$/i.test(item))) return "Addresses: each with its prefix, such as 192.0.2.10/24";
  if ([...list(fields.gateway), ...list(fields.dns)].some((item) => !/^[0-9a-f.:]+$/i.test(item))) return "Gateway and DNS servers: addresses";
  return "";
}

function AsForm({ id, add }) {
  const [fields, setFields] = useState(EMPTY);
  const [problem, setProblem] = useState("");
  const field = (name, label, help) => html`<div class="field"><label for=${id + name}>${label}</label>
    <input id=${id + name} value=${fields[name]} autocomplete="off" spellcheck=${false} aria-describedby=${id + name + "-help"}
      onInput=${(event) => setFields({ ...fields, [name]: event.target.value })} /><span id=${id + name + "-help"} class="soft">${help}</span></div>`;
  const take = () => {
    const found = problemOf(fields);
    setProblem(found);
    if (found) return;
    add({ network_yaml: documentOf(fields), mac_interface_map: [{ mac_address: fields.mac, logical_nic_name: fields.nic }] });
    setFields({ ...fields, mac: "", address: "" });
  };
  return html`<div class="grid">${field("mac", "MAC address", "Which host it is for.")}${field("nic", "NIC", "The name that it gets in the YAML.")}
    ${field("address", "Addresses", "With prefix, IPv4 and IPv6, separated by commas.")}${field("gateway", "Gateways", "One of each family.")}
    ${field("dns", "DNS servers", "Separated by commas.")}${field("vlan", "VLAN", "Empty for none.")}</div>
    <p class="bad" role="alert">${problem}</p>
    <button type="button" onClick=${take}>Add this host's network</button>`;
}

export function StaticNetworks({ form }) {
  const items = form.draft.values.static_network_config || [];
  const set = (value) => form.draft.set("static_network_config", value);
  const change = (index, entry) => set(items.map((item, place) => (place === index ? entry : item)));
  const macs = (item) => item.mac_interface_map.map((nic) => nic.mac_address + "=" + nic.logical_nic_name).join(", ");
  const parsed = (text) => text.split(/[\s,]+/).filter(Boolean).map((pair) => {
    const [mac_address, logical_nic_name] = pair.split("=");
    return { mac_address, logical_nic_name: logical_nic_name || "" };
  });
  const theirs = form.draft.conflicts.static_network_config;
  return html`<fieldset disabled=${!mayChange()}><legend>Static networks</legend>
    <p class="soft">Hosts without an entry use DHCP.</p>
    ${form.problems.static_network_config && html`<p class="bad" role="alert">${form.problems.static_network_config}</p>`}
    ${theirs && html`<div class="notice" role="alert">Changed meanwhile in another browser, to ${theirs.length} entries.
      <span class="row"><button type="button" onClick=${() => form.draft.keepMine("static_network_config")}>Keep mine</button>
      <button type="button" onClick=${() => form.draft.takeTheirs("static_network_config")}>Take theirs</button></span></div>`}
    ${items.map((item, index) => html`<details key=${index}><summary>Host ${index + 1}: ${macs(item) || "no MAC address yet"}</summary>
      <div class="field"><label for=${"static-macs-" + index}>MAC addresses and NICs of host ${index + 1}</label>
        <input id=${"static-macs-" + index} value=${macs(item)} placeholder="52:54:00:00:00:01=eno1" spellcheck=${false}
          onChange=${(event) => change(index, { ...item, mac_interface_map: parsed(event.target.value) })} /></div>
      <div class="field"><label for=${"static-yaml-" + index}>NMState YAML of host ${index + 1}</label>
        <textarea id=${"static-yaml-" + index} rows="12" spellcheck=${false} value=${item.network_yaml}
          onInput=${(event) => change(index, { ...item, network_yaml: event.target.value })}></textarea></div>
      <button type="button" onClick=${() => set(items.filter((_, place) => place !== index))}>Remove host ${index + 1}'s network</button></details>`)}
    <details><summary>Add a host's network by a form</summary><${AsForm} id="static-" add=${(entry) => set([...items, entry])} /></details>
    <button type="button" onClick=${() => set([...items, { network_yaml: "interfaces: []\n", mac_interface_map: [] }])}>Add a host's network as YAML</button>
  </fieldset>`;
}
