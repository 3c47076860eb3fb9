/* Networking of a cluster: its networks and virtual addresses. */
import { cluster as at } from "../api.js";
import { joined, list, patch, useDraft, useResource } from "../draft.js";
import { Buttons, Select, Text, problemsIn, useSaving } from "../fields.js";
import { failing, Verdict } from "../hostcard.js";
import { besideFields, remedyOf } from "../remedies.js";
import { hostsOf } from "../store.js";
import { html } from "../vendor/preact-htm.js";

const NAMES = ["machine_networks", "cluster_networks", "service_networks", "api_vips", "ingress_vips", "load_balancer"];

function read(item) {
  return {
    machine_networks: joined(item.machine_networks?.map(({ cidr }) => cidr)),
    service_networks: joined(item.service_networks?.map(({ cidr }) => cidr)),
    cluster_networks: joined(item.cluster_networks?.map(({ cidr, host_prefix }) => cidr + "-" + host_prefix)),
    api_vips: joined(item.api_vips?.map(({ ip }) => ip)),
    ingress_vips: joined(item.ingress_vips?.map(({ ip }) => ip)),
    load_balancer: item.load_balancer?.type || "cluster-managed",
  };
}

function body(changed) {
  const made = {};
  for (const name of ["machine_networks", "service_networks"]) {
    if (name in changed) made[name] = list(changed[name]).map((cidr) => ({ cidr }));
  }
  if ("cluster_networks" in changed) {
    made.cluster_networks = list(changed.cluster_networks).map((entry) => {
      const [cidr, prefix] = entry.split("-");
      if (prefix && !/^\d+$/.test(prefix)) throw new Error("cluster_networks: " + entry + ": the host prefix must be a number");
      return { cidr, ...(prefix ? { host_prefix: Number(prefix) } : {}) };
    });
  }
  for (const name of ["api_vips", "ingress_vips"]) if (name in changed) made[name] = list(changed[name]).map((ip) => ({ ip }));
  if ("load_balancer" in changed) made.load_balancer = { type: changed.load_balancer };
  return made;
}

/* The IPv4 networks that NICs of the hosts are in. */
function networksOf(hosts) {
  const found = new Map();
  for (const item of hosts) {
    for (const address of (item.hardware?.nics || []).flatMap((nic) => nic.addresses)) {
      const [, ip, prefix] = /^([\d.]+)\/(\d+)$/.exec(address) || [];
      if (!ip) continue;
      const bits = ip.split(".").reduce((sum, octet) => sum * 256 + Number(octet), 0);
      const base = Math.floor(bits / 2 ** (32 - prefix)) * 2 ** (32 - prefix);
      const cidr = [24, 16, 8, 0].map((shift) => Math.floor(base / 2 ** shift) % 256).join(".") + "/" + prefix;
      found.set(cidr, (found.get(cidr) || new Set()).add(item.id));
    }
  }
  return [...found].map(([cidr, ids]) => [cidr, ids.size]).sort((a, b) => b[1] - a[1]);
}

export function Networking({ id, shown, locked }) {
  const { value, problem, reload } = useResource(at(id), shown);
  const draft = useDraft("networking " + id, value ? read(value) : {});
  const saving = useSaving();
  if (!value) return html`<p class="soft">${problem || "Loading…"}</p>`;
  const everybody = [...shown.validations, ...hostsOf(id).flatMap((item) => item.validations)];
  const problems = besideFields("networking", everybody, problemsIn(saving.outcome.kind === "bad" ? saving.outcome.text : "", NAMES));
  /* Those that are about a field are beside it. */
  const wrong = failing(shown.validations).filter((item) => item.status !== "pending" && remedyOf(item.id)?.step === "networking"
    && !remedyOf(item.id).field);
  const form = { id: "networking", draft, locked, problems };
  const submit = (event) => {
    event.preventDefault();
    saving.run(() => patch({ path: at(id), draft, read, body, reload }));
  };
  const own = (value.platform?.type || "none") === "none";
  const seen = networksOf(hostsOf(id));
  return html`<form onSubmit=${submit} novalidate aria-label="Networking">
    <${Text} form=${form} name="machine_networks" label="Machine networks" placeholder="192.0.2.0/24"
      help=${seen.length ? "Networks of the hosts: " + seen.map(([cidr, count]) => `${cidr} (${count})`).join(", ") + "." : "Networks of the hosts' addresses."} />
    ${!own && html`<div class="grid">
      <${Text} form=${form} name="api_vips" label="API addresses" help="Free addresses of a machine network, one of each family." />
      <${Text} form=${form} name="ingress_vips" label="Ingress addresses" help="Other ones, likewise." /></div>
      <${Select} form=${form} name="load_balancer" label="Load balancer" options=${[["cluster-managed", "Of the cluster"], ["user-managed", "Your own"]]} />`}
    ${own && html`<p>api, api-int and *.apps of the cluster's domain must be in your DNS: of a single node with its address, else with your load balancer's.</p>`}
    <${Text} form=${form} name="cluster_networks" label="Cluster networks" help="Of pods, each with a hyphen and the prefix of a host's part: 10.128.0.0/14-23." />
    <${Text} form=${form} name="service_networks" label="Service networks" />
    ${wrong.length > 0 && html`<ul class="verdicts" aria-label="Validations of the networking that do not hold">
      ${wrong.map((item) => html`<${Verdict} key=${item.id} item=${item} />`)}</ul>`}
    <${Buttons} form=${form} saving=${saving} /></form>`;
}
