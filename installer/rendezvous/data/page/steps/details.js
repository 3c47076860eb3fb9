/* Cluster details: registers a cluster with its infra-env, and changes them later. */
import { call, cluster as at, get, infraEnv } from "../api.js";
import { patch, remember, useDraft, useResource } from "../draft.js";
import { Area, Buttons, Check, Select, Text, problemsIn, useSaving } from "../fields.js";
import { besideFields } from "../remedies.js";
import { hostsOf, state } from "../store.js";
import { html, useRef } from "../vendor/preact-htm.js";
import { register as registerImage } from "./image.js";

const NAMES = ["name", "base_dns_domain", "openshift_version", "cpu_architecture", "control_plane_count", "platform",
  "pull_secret", "ssh_public_key", "http_proxy", "https_proxy", "no_proxy", "additional_ntp_source", "mirrors",
  "additional_trust_bundle", "infra_env", "image_type", "schedulable_masters"];
const SAME = ["name", "base_dns_domain", "ssh_public_key", "http_proxy", "https_proxy", "no_proxy", "additional_ntp_source"];
const FOLDED = ["http_proxy", "https_proxy", "no_proxy", "additional_ntp_source", "mirrors", "additional_trust_bundle"];
const COUNTS = [["1", "1: a single node"], ["3", "3"], ["4", "4"], ["5", "5"]];
const PLATFORMS = [["baremetal", "Bare metal: virtual addresses kept by the cluster"],
  ["none", "None: a load balancer and DNS of your own"]];
const NEW = { control_plane_count: "3", platform: "baremetal", infra_env: "", image_type: "full-iso" };

/* A line for each: source = mirror mirror… (imageDigestSources of an install-config). */
const mirrorsText = (sources) => (sources || []).map(({ source, mirrors }) => source + " = " + (mirrors || []).join(" ")).join("\n");

function mirrorsOf(text) {
  return (text || "").split("\n").filter((line) => line.trim()).map((line) => {
    const [source, mirrors] = line.split("=").map((part) => part.trim());
    if (!source || !mirrors) throw new Error("mirrors: " + line.trim() + ": must be SOURCE = MIRROR");
    return { source, mirrors: mirrors.split(/\s+/) };
  });
}

const overridesOf = (item) => JSON.parse(item.install_config_overrides || "{}");

function read(item) {
  return {
    ...Object.fromEntries(SAME.map((name) => [name, item[name] || ""])),
    control_plane_count: String(item.control_plane_count),
    platform: item.platform?.type || "none",
    schedulable_masters: !!item.schedulable_masters,
    pull_secret: "",
    mirrors: mirrorsText(overridesOf(item).imageDigestSources),
  };
}

function body(values) {
  const made = Object.fromEntries(SAME.filter((name) => name in values).map((name) => [name, values[name].trim()]));
  if (values.control_plane_count) made.control_plane_count = Number(values.control_plane_count);
  if (values.platform) made.platform = { type: values.control_plane_count === "1" ? "none" : values.platform };
  if (values.pull_secret) made.pull_secret = values.pull_secret.trim();
  if ("schedulable_masters" in values) made.schedulable_masters = values.schedulable_masters;
  return made;
}

/* Registers both, or neither; if the service goes away meanwhile, the error says what is left. Returns the cluster's id. */
async function register(values) {
  const sources = mirrorsOf(values.mirrors);
  const made = await call("POST", "/clusters", { ...body(values), openshift_version: values.openshift_version,
    cpu_architecture: values.cpu_architecture });
  try {
    if (sources.length) await call("PATCH", at(made.id, "/install-config"), JSON.stringify({ imageDigestSources: sources }));
    if (!values.infra_env) {
      await registerImage(made, values);
    } else {
      /* Of its own settings only the certificates count for a cluster. */
      const { additional_trust_bundle } = values;
      if (additional_trust_bundle) await call("PATCH", infraEnv(values.infra_env), { additional_trust_bundle });
      for (const item of state.hosts.values()) {
        if (item.infra_env_id === values.infra_env && !item.cluster_id) {
          await call("POST", `/infra-envs/${item.infra_env_id}/hosts/${item.id}/actions/bind`, { cluster_id: made.id });
        }
      }
    }
  } catch (error) {
    await call("DELETE", at(made.id)).catch(() => {
      throw new Error(`${made.name} is registered, but the service went away before the rest was: open that cluster to go on, or remove it there.`);
    });
    throw error;
  }
  return made.id;
}

function Fields({ form, versions, waits }) {
  const { values } = form.draft;
  const single = values.control_plane_count === "1";
  const known = Object.entries(versions || {});
  /* It opens where there is something, and does not close while that is being taken out. */
  const opened = useRef(false);
  opened.current ||= FOLDED.some((name) => values[name] || form.problems[name]);
  const cpus = versions?.[values.openshift_version]?.cpu_architectures || [];
  return html`<div class="grid">
      <${Text} form=${form} name="name" label="Cluster name" required help="Lower-case letters, digits and hyphens." />
      <${Text} form=${form} name="base_dns_domain" label="Base domain" required placeholder="example.com"
        help=${`The cluster is ${values.name || "NAME"}.${values.base_dns_domain || "DOMAIN"}.`} />
      ${form.isNew && html`<${Select} form=${form} name="openshift_version" label="OpenShift version"
        options=${known.map(([id, item]) => [id, item.display_name])}
        help=${waits} />
      <${Select} form=${form} name="cpu_architecture" label="CPU architecture" options=${cpus.map((cpu) => [cpu, cpu])} />`}
      <${Select} form=${form} name="control_plane_count" label="Control plane nodes" options=${form.isNew ? COUNTS : COUNTS.filter(([count]) => (count === "1") === form.single)} />
      ${!single && html`<${Select} form=${form} name="platform" label="Platform" options=${PLATFORMS} />`}
    </div>
    ${!form.isNew && !single && html`<${Check} form=${form} name="schedulable_masters"
      label="Run workloads on control plane nodes as well" help="Always so with fewer than two workers." />`}
    <${Area} form=${form} name="pull_secret" label="Pull secret" rows=${3}
      help=${form.isNew ? "JSON with logins to registries." : "Is set and not shown. Enter another one to replace it."} />
    <${Area} form=${form} name="ssh_public_key" label="SSH public key" rows=${2} help="To log in to the hosts as core." />
    <details open=${opened.current}><summary>Proxy, time, mirrors</summary>
      <div class="grid"><${Text} form=${form} name="http_proxy" label="HTTP proxy" placeholder="http://proxy.example.com:3128" />
      <${Text} form=${form} name="https_proxy" label="HTTPS proxy" />
      <${Text} form=${form} name="no_proxy" label="No proxy for" help="Domains, addresses and networks, separated by commas." />
      <${Text} form=${form} name="additional_ntp_source" label="NTP sources" help="Names or addresses, separated by commas." /></div>
      <${Area} form=${form} name="mirrors" label="Mirrors of images" rows=${2} placeholder="quay.io/source = mirror.example.com:5000/source"
        help="A line each: SOURCE = MIRROR. Those of the installed cluster; the discovery image has the mirrors of the service's own folder." />
      ${form.isNew && html`<${Area} form=${form} name="additional_trust_bundle" label="Additional trust bundle"
        help="PEM certificates that hosts and cluster trust as well, a mirror's for example." />`}
    </details>`;
}

export function NewCluster({ go }) {
  /* Asked again when the page is live again: the answer may have been lost with the connection. */
  const { value: versions, problem } = useResource("/openshift-versions", state.version + state.connected);
  const [first, about] = Object.entries(versions || {}).find(([, item]) => item.default) || Object.entries(versions || {})[0] || [];
  const draft = useDraft("new cluster", { ...NEW, openshift_version: first || "",
    cpu_architecture: about?.cpu_architectures.includes("x86_64") ? "x86_64" : about?.cpu_architectures[0] || "" });
  const saving = useSaving();
  /* Nobody else changes what is not there yet. */
  const form = { id: "new", draft: { ...draft, conflicts: {} }, problems: problemsIn(saving.outcome.kind === "bad" ? saving.outcome.text : "", NAMES), isNew: true };
  const unasked = problem || "The service is being asked which versions it can install.";
  const waits = first ? "" : versions ? "No version is known yet: the service was started without a release, or cannot read it." : unasked;
  const unbound = [...state.infraEnvs.values()].filter((item) => !item.cluster_id);
  const submit = (event) => {
    event.preventDefault();
    saving.run(async () => {
      const id = await register(draft.values);
      remember("new cluster", { ...draft.values, infra_env: "" });
      draft.clear();
      go("#/clusters/" + id + (draft.values.infra_env ? "/hosts" : "/image"));
    });
  };
  return html`<h2 id="step-title" tabindex="-1">Create a cluster</h2><form onSubmit=${submit} novalidate aria-label="Create a cluster">
    <${Fields} form=${form} versions=${versions} waits=${waits} />
    ${unbound.length > 0 && html`<${Select} form=${form} name="infra_env" label="Hosts come from"
      options=${[["", "a new discovery image"], ...unbound.map((item) => [item.id, "infra-env " + item.name + ", whose hosts are in no cluster"])]} />`}
    ${!draft.values.infra_env && html`<${Select} form=${form} name="image_type" label="Discovery image"
      options=${[["full-iso", "Full: all that a host needs to start"], ["minimal-iso", "Minimal: the rest is fetched over the network"]]} />`}
    <${Buttons} form=${form} saving=${saving} label="Create cluster" waits=${waits} />
  </form>`;
}

export function Details({ id, shown, locked }) {
  const { value, problem, reload } = useResource(at(id), shown);
  const draft = useDraft("details " + id, value ? read(value) : {});
  const saving = useSaving();
  if (!value) return html`<p class="soft">${problem || "Loading…"}</p>`;
  const everybody = [...shown.validations, ...hostsOf(id).flatMap((item) => item.validations)];
  const form = { id: "details", draft, locked, single: value.control_plane_count === 1,
    problems: besideFields("details", everybody, problemsIn(saving.outcome.kind === "bad" ? saving.outcome.text : "", NAMES)) };
  const submit = (event) => {
    event.preventDefault();
    const send = (changed, all) => {
      mirrorsOf(all.mirrors);
      return body({ ...changed, ...(changed.platform ? { control_plane_count: all.control_plane_count } : {}) });
    };
    const also = async ({ mirrors }) => {
      if (mirrors === undefined) return;
      const { imageDigestSources, ...others } = overridesOf(await get(at(id)));
      const sources = mirrorsOf(mirrors);
      await call("PATCH", at(id, "/install-config"), JSON.stringify({ ...others, ...(sources.length ? { imageDigestSources: sources } : {}) }));
    };
    saving.run(() => patch({ path: at(id), draft, read, body: send, reload, also }));
  };
  return html`<form onSubmit=${submit} novalidate aria-label="Cluster details">
    <p class="soft">OpenShift ${value.openshift_version}, ${value.cpu_architecture}</p>
    <${Fields} form=${form} /><${Buttons} form=${form} saving=${saving} /></form>`;
}
