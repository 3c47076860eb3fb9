/* The discovery image: an infra-env's settings, its static networks, and the download. */
import { call, cluster, infraEnv as at } from "../api.js";
import { patch, useDraft, useResource } from "../draft.js";
import { Area, Buttons, Outcome, Select, Text, problemsIn, useSaving } from "../fields.js";
import { besideFields } from "../remedies.js";
import { hostsOf } from "../store.js";
import { html } from "../vendor/preact-htm.js";
import { StaticNetworks, read as readStatic } from "./static.js";

const NAMES = ["image_type", "ssh_authorized_key", "http_proxy", "https_proxy", "no_proxy", "additional_ntp_sources",
  "additional_trust_bundle", "static_network_config", "kernel_arguments", "pull_secret"];
const PLAIN = ["ssh_authorized_key", "additional_ntp_sources", "additional_trust_bundle"];
const PROXY = ["http_proxy", "https_proxy", "no_proxy"];

const kernel = (item) => JSON.parse(item.kernel_arguments || "[]");
const appends = (row) => row.operation === "append";

function read(item) {
  return {
    ...Object.fromEntries(PLAIN.map((name) => [name, item[name] || ""])),
    ...Object.fromEntries(PROXY.map((name) => [name, item.proxy?.[name] || ""])),
    image_type: item.type,
    static_network_config: readStatic(item.static_network_config),
    kernel_arguments: kernel(item).filter(appends).map((row) => row.value).join(" "),
    /* Which the form has no field for, and sends back as they are. */
    kernel_others: kernel(item).filter((row) => !appends(row)),
    pull_secret: "",
  };
}

function body(changed, all) {
  const made = Object.fromEntries(PLAIN.filter((name) => name in changed).map((name) => [name, changed[name]]));
  if (PROXY.some((name) => name in changed)) made.proxy = Object.fromEntries(PROXY.map((name) => [name, all[name]]));
  if ("image_type" in changed) made.image_type = changed.image_type;
  if (changed.pull_secret) made.pull_secret = changed.pull_secret.trim();
  if ("static_network_config" in changed) made.static_network_config = changed.static_network_config;
  if ("kernel_arguments" in changed) {
    const values = changed.kernel_arguments.match(/("[^"]*"|\S)+/g) || [];
    made.kernel_arguments = [...all.kernel_others, ...values.map((value) => ({ operation: "append", value }))];
  }
  return made;
}

/* Registers the infra-env of a cluster; `item` is the cluster as the API shows it, `values` has what that hides. */
export const register = (item, values) => call("POST", "/infra-envs", {
  name: item.name, cluster_id: item.id, pull_secret: values.pull_secret.trim(), image_type: values.image_type,
  cpu_architecture: item.cpu_architecture, openshift_version: item.openshift_version,
  ssh_authorized_key: item.ssh_public_key || "", additional_ntp_sources: item.additional_ntp_source || "",
  additional_trust_bundle: values.additional_trust_bundle || "",
  proxy: Object.fromEntries(PROXY.map((name) => [name, item[name] || ""])),
});

function NewImage({ id }) {
  const draft = useDraft("new image " + id, { pull_secret: "", image_type: "full-iso" });
  const saving = useSaving();
  const form = { id: "new-image", draft, isNew: true };
  const submit = (event) => {
    event.preventDefault();
    saving.run(async () => {
      await register(await call("GET", cluster(id)), draft.values);
      draft.clear();
    });
  };
  return html`<p>This cluster has no discovery image of its own. Its hosts come from another infra-env (add them at the step Hosts), or
    from an image that you make here.</p><form onSubmit=${submit} novalidate aria-label="Make a discovery image">
    <${Area} form=${form} name="pull_secret" label="Pull secret" rows=${3} help="JSON with logins to registries." />
    <${Buttons} form=${form} saving=${saving} label="Make a discovery image" /></form>`;
}

export function DiscoveryImage({ id, infraEnv }) {
  const { value, problem, reload } = useResource(infraEnv && at(infraEnv.id), infraEnv);
  const draft = useDraft("image " + infraEnv?.id, value ? read(value) : {});
  const saving = useSaving(), making = useSaving();
  if (!infraEnv) return html`<${NewImage} id=${id} />`;
  if (!value) return html`<p class="soft">${problem || "Loading…"}</p>`;
  const said = problemsIn(saving.outcome.kind === "bad" ? saving.outcome.text : "", NAMES);
  const form = { id: "image", draft, problems: besideFields("image", hostsOf(id).flatMap((item) => item.validations), said) };
  const submit = (event) => {
    event.preventDefault();
    saving.run(() => patch({ path: at(infraEnv.id), draft, read, body, reload }), "Saved. Hosts get it from an image that is downloaded from now on.");
  };
  const fetchImage = () => making.run(async () => {
    const { url } = await call("GET", at(infraEnv.id, "/downloads/image-url"));
    const link = document.createElement("a");
    /* The service says that it is to be kept, and as what. */
    link.href = url;
    link.click();
    return "The download has begun. Its address, for a BMC's virtual media, is valid for four hours: " + url;
  });
  return html`<h3>Boot the hosts</h3>
    <p>Boot each host from this image (USB, virtual media or DVD). It appears under Hosts within a minute or two of its start.</p>
    ${draft.dirty && html`<p class="notice">What you have entered below is not in the image before it is saved.</p>`}
    <${Outcome} saving=${making} />
    ${value.download_url ? html`<div class="row"><button type="button" class="primary" onClick=${fetchImage} disabled=${making.busy}>Download discovery ISO</button></div>`
    : html`<p class="notice">This service makes no images: it runs on a host that was booted from one, and the other hosts boot from the same.</p>`}
    <h3>What the image has</h3>
    <form onSubmit=${submit} novalidate aria-label="Discovery image">
    <${Select} form=${form} name="image_type" label="Image" options=${[["full-iso", "Full: all that a host needs to start"],
      ["minimal-iso", "Minimal: the rest is fetched over the network"]]} />
    <${StaticNetworks} form=${form} />
    <${Area} form=${form} name="ssh_authorized_key" label="SSH public key" rows=${2} help="To log in to discovered hosts as core." />
    <div class="grid"><${Text} form=${form} name="http_proxy" label="HTTP proxy" />
    <${Text} form=${form} name="https_proxy" label="HTTPS proxy" />
    <${Text} form=${form} name="no_proxy" label="No proxy for" />
    <${Text} form=${form} name="additional_ntp_sources" label="NTP sources" />
    <${Text} form=${form} name="kernel_arguments" label="Further kernel arguments" /></div>
    <${Area} form=${form} name="additional_trust_bundle" label="Additional trust bundle" help="PEM certificates that hosts and cluster trust as well." />
    <${Buttons} form=${form} saving=${saving} /></form>`;
}
