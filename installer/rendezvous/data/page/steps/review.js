/* Review: what will be installed, every validation that prevents it with its remedy, and the installation's start. */
import { call, cluster as at, mayChange } from "../api.js";
import { Details, failing, Verdict } from "../hostcard.js";
import { hostsOf } from "../store.js";
import { html } from "../vendor/preact-htm.js";
import { Outcome, useSaving } from "../fields.js";

/* The same verdict on many hosts is one line. */
function ofHosts(hosts) {
  const rows = new Map();
  for (const host of hosts) {
    for (const item of failing(host.validations)) {
      const key = item.id + " " + item.status + " " + item.message;
      rows.set(key, { item, names: [...(rows.get(key)?.names || []), host.name] });
    }
  }
  return [...rows.values()].map(({ item, names }) => ({ item,
    whose: names.length > 4 ? names.slice(0, 3).join(", ") + " and " + (names.length - 3) + " other hosts" : names.join(", ") }));
}

export function Review({ id, shown, step, go }) {
  const saving = useSaving();
  const hosts = hostsOf(id);
  const roles = { master: 0, worker: 0 };
  for (const item of hosts) roles[item.role] = (roles[item.role] || 0) + 1;
  const wrong = [...failing(shown.validations).map((item) => ({ item, whose: "" })), ...ofHosts(hosts)];
  const failed = wrong.filter(({ item }) => item.status !== "pending");
  const waiting = wrong.filter(({ item }) => item.status === "pending");
  const ready = shown.status === "ready";
  const install = () => saving.run(async () => {
    await call("POST", at(id, "/actions/install"));
    go(step + "/progress");
  });
  const rows = [["Cluster", `${shown.name}.${shown.domain}`], ["OpenShift", shown.version], ["Platform", shown.platform],
    ["Control plane", `${shown.control_plane_count} wanted, ${roles.master} there`], ["Workers", String(roles.worker)],
    ["API", shown.api_vips.join(", ")], ["Ingress", shown.ingress_vips.join(", ")]];
  return html`<dl>${rows.filter(([, value]) => value).map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>
    <h3>Hosts</h3><ul>${hosts.map((host) => html`<li key=${host.key}>${host.name}: ${host.role}, ${host.status}${
      host.hardware ? ", " + (host.hardware.disks.filter((disk) => disk.chosen).map((disk) => disk.path)[0] || "no disk chosen") : ""}</li>`)}</ul>
    <h3>Validations</h3>
    ${!wrong.length && html`<p class="notice good">All validations hold.</p>`}
    ${[["What prevents the installation", failed.filter(({ item }) => !item.warns)],
      ["Warnings", failed.filter(({ item }) => item.warns)]].filter(([, rows]) => rows.length).map(([title, rows]) => html`
      <h4>${title}</h4><ul class="verdicts" aria-label=${title}>${rows.map(({ item, whose }) => html`<${Verdict} key=${whose + item.id} step=${step}
        item=${{ ...item, message: (whose ? whose + ": " : "") + item.message }} />`)}</ul>`)}
    ${waiting.length > 0 && html`<${Details} summary=${"What is not known yet: " + waiting.length}>${() => html`<ul class="verdicts">
      ${waiting.map(({ item, whose }) => html`<${Verdict} key=${whose + item.id} item=${{ ...item, message: (whose ? whose + ": " : "") + item.message }} />`)}</ul>`}<//>`}
    <${Outcome} saving=${saving} />
    ${mayChange() ? html`<p class="soft">All that is on the installation disks is lost.</p>
      <button type="button" class="primary" id="install" disabled=${!ready || saving.busy} onClick=${install}>Install cluster</button>`
    : html`<p class="notice">The user's token is needed to install.</p>`}`;
}
