/* Host discovery: hosts as they come, and what each is to be: role, name, disk, or none of this cluster's. */
import { call, host as at, mayChange } from "../api.js";
import { patch, useDraft, useResource } from "../draft.js";
import { Asking, Buttons, Outcome, Select, Text, useSaving } from "../fields.js";
import { Details, HostList, size } from "../hostcard.js";
import { besideFields } from "../remedies.js";
import { hostsOf, state } from "../store.js";
import { html, useRef } from "../vendor/preact-htm.js";

const ROLES = [["auto-assign", "Chosen by the service"], ["master", "Control plane"], ["worker", "Worker"]];

/* Those in which the service takes changes of a host. */
const EDITABLE = /^(known|insufficient|discovering|disconnected|pending-for-input)(-unbound)?$/;

function read(item) {
  return { host_role: item.role, host_name: item.requested_hostname || "", disk: item.installation_disk_id || "" };
}

function body(changed) {
  return {
    ...("host_role" in changed ? { host_role: changed.host_role } : {}),
    ...("host_name" in changed ? { host_name: changed.host_name.trim() } : {}),
    ...("disk" in changed ? { disks_selected_config: [{ id: changed.disk, role: "install" }] } : {}),
  };
}

function HostForm({ item }) {
  const { value, problem, reload } = useResource(at(item), item);
  const draft = useDraft("host " + item.key, value ? read(value) : {});
  const saving = useSaving();
  const disks = useRef([]);
  if (!value) return html`<p class="soft">${problem || "Loading…"}</p>`;
  const form = { id: "edit-" + item.key, draft, problems: besideFields("hosts", item.validations) };
  /* A host that has been bound sends its inventory again: until then its disks are as they were. */
  const found = JSON.parse(value.inventory || "{}").disks;
  if (found) disks.current = found;
  const waits = !EDITABLE.test(value.status) || ("disk" in draft.changed && !found)
    ? value.status_info + ". What you enter is kept and can be saved after that." : "";
  const submit = (event) => {
    event.preventDefault();
    saving.run(() => patch({ path: at(item), draft, read, body, reload }));
  };
  return html`<form onSubmit=${submit} novalidate aria-label=${"Change " + item.name}>
    <${Text} form=${form} name="host_name" label="Host name" />
    <${Select} form=${form} name="host_role" label="Role" options=${ROLES}
      help=${value.role === "auto-assign" && value.suggested_role ? "Suggested: " + value.suggested_role : ""} />
    <${Select} form=${form} name="disk" label="Installation disk" options=${disks.current.map((disk) => {
      const good = disk.installation_eligibility?.eligible;
      return [disk.id, `${disk.path || disk.name}, ${size(disk.size_bytes || 0)}, ${disk.drive_type || ""}${good ? "" : ": not eligible"}`, !good];
    })} help=${disks.current.length ? "All that is on it is lost." : "Its disks are known once it has sent its hardware details."} />
    <${Buttons} form=${form} saving=${saving} waits=${waits} /></form>`;
}

function Removal({ item }) {
  const saving = useSaving();
  return html`<${Outcome} saving=${saving} /><div class="row">
    <${Asking} label=${"Remove " + item.name} yes=${"Yes, remove " + item.name} busy=${saving.busy}
      question=${`Remove ${item.name}? It comes back when it is booted from the image again.`} work=${() => saving.run(() => call("DELETE", at(item)), "")} />
    ${state.infraEnvs.get(item.infra_env_id)?.cluster_id !== item.cluster_id && html`<button type="button" disabled=${saving.busy}
      onClick=${() => saving.run(() => call("POST", at(item, "/actions/unbind")))}>Take ${item.name} out of this cluster</button>`}</div>`;
}

const actions = (item) => (mayChange() ? html`<${Details} summary=${"Change " + item.name}>
  <${HostForm} item=${item} /><${Removal} item=${item} /><//>` : null);

function Unbound({ id }) {
  const items = [...state.hosts.values()].filter((item) => !item.cluster_id && !item.expected);
  const saving = useSaving();
  if (!items.length || !mayChange()) return null;
  const bind = (chosen) => saving.run(async () => {
    for (const item of chosen) await call("POST", at(item, "/actions/bind"), { cluster_id: id });
  });
  return html`<h3>Hosts in no cluster</h3><${Outcome} saving=${saving} />
    <ul>${items.map((item) => html`<li key=${item.key} class="row">${item.name}, ${item.status}
      <button type="button" disabled=${saving.busy} onClick=${() => bind([item])}>Add ${item.name} to this cluster</button></li>`)}</ul>
    ${items.length > 1 && html`<button type="button" disabled=${saving.busy} onClick=${() => bind(items)}>Add all ${items.length} to this cluster</button>`}`;
}

export function Hosts({ id, step, locked }) {
  const items = hostsOf(id);
  const expected = [...state.hosts.values()].filter((item) => item.expected).sort((a, b) => a.rank - b.rank);
  return html`<p role="status">${items.length === 1 ? "1 host has" : items.length + " hosts have"} registered, ${
    items.filter((item) => item.status === "known").length} can be installed.</p>
    ${!items.length && html`<p>Boot hosts from the <a href=${step + "/image"}>discovery image</a>: they appear here by themselves.</p>`}
    <${HostList} items=${[...items, ...expected]} actions=${locked ? null : actions} step=${step} label="Hosts of this cluster" />
    <${Unbound} id=${id} />`;
}
