/* Review: what will be installed, every validation that prevents it with its remedy, and the installation's start. */
import { call, cluster as at, mayChange } from "../api.js";
import { failing, Verdict } from "../hostcard.js";
import { hostsOf } from "../store.js";
import { html } from "../vendor/preact-htm.js";
import { Outcome, useSaving } from "../fields.js";

/* The validations that do not hold, of the cluster and of hosts; what is said of many hosts alike is there once. */
function allFailing(shown, hosts) {
  const found = new Map();
  for (const { name, validations } of [{ validations: shown.validations }, ...hosts]) {
    for (const item of failing(validations)) {
      const key = [item.id, item.status, item.message].join(" ");
      if (!found.has(key)) found.set(key, { ...item, key, names: [] });
      if (name) found.get(key).names.push(name);
    }
  }
  return [...found.values()].map((item) => ({ ...item, message: (item.names.length ? item.names.join(", ") + ": " : "") + item.message }));
}

export function Review({ id, shown, step, go }) {
  const saving = useSaving();
  const hosts = hostsOf(id);
  const roles = { master: 0, worker: 0 };
  for (const item of hosts) roles[item.role] = (roles[item.role] || 0) + 1;
  const wrong = allFailing(shown, hosts);
  const failed = wrong.filter((item) => item.status !== "pending");
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
    ${[["What prevents the installation", failed.filter((item) => !item.warns)], ["Warnings", failed.filter((item) => item.warns)],
      ["What is not known yet", wrong.filter((item) => item.status === "pending")]].filter(([, items]) => items.length).map(([title, items]) => html`
      <h4>${title}</h4><ul class="verdicts" aria-label=${title}>${items.map((item) => html`<${Verdict} key=${item.key} step=${step} item=${item} />`)}</ul>`)}
    <${Outcome} saving=${saving} />
    ${mayChange() ? html`<p class="soft">All that is on the installation disks is lost.</p>
      <button type="button" class="primary" id="install" disabled=${!ready || saving.busy} onClick=${install}>Install cluster</button>`
    : html`<p class="notice">The user's token is needed to install.</p>`}`;
}
