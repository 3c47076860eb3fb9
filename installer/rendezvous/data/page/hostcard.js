/* One host as everybody may see it: stage, validations, hardware; what may be changed of it comes as its children. */
import { fetchFile } from "./files.js";
import { remedyOf, TITLES } from "./remedies.js";
import { Component, html, useState } from "./vendor/preact-htm.js";

export function kind(status) {
  if (/^(error|failure|preparing-failed|cancelled)$/.test(status)) return "bad";
  if (/disconnected|insufficient|pending|warning/.test(status)) return "warn";
  if (/^(known|ready|installed|success|added-to-existing-cluster)/.test(status)) return "good";
  return "running";
}

export function size(bytes) {
  if (bytes >= 1e12) return (bytes / 1e12).toFixed(1) + " TB";
  if (bytes >= 1e9) return Math.round(bytes / 1e9) + " GB";
  return Math.round(bytes / 1e6) + " MB";
}

export const Status = ({ value, info }) => html`<span class=${"status " + kind(value)}>${value}</span>${info ? ": " + info : ""}`;

/* The content is made when it is opened: a hundred hosts have thousands of validations. */
export function Details({ summary, children, open = false }) {
  const [opened, setOpened] = useState(open);
  return html`<details open=${open} onToggle=${(event) => setOpened(event.currentTarget.open)}>
    <summary>${summary}</summary>${opened && html`<div>${typeof children === "function" ? children() : children}</div>`}</details>`;
}

export const failing = (items) => items.filter((item) => item.status !== "disabled" && item.status !== "success");
export const counted = (items) => {
  const asked = items.filter((item) => item.status !== "disabled");
  return asked.length - failing(items).length + " of " + asked.length + " hold";
};

/* A verdict with what can be done about it, and where. `step`: the address of the cluster's pages, if there is one. */
export function Verdict({ item, step }) {
  const remedy = item.status === "success" || item.status === "disabled" ? null : remedyOf(item.id);
  const said = item.warns && item.status === "failure" ? "warning" : item.status;
  return html`<li><span class=${"status " + kind(said)}>${said}</span> ${item.id}${item.message ? ": " + item.message : ""}
    ${remedy && item.status !== "pending" && html` <span class="remedy">${remedy.text}
      ${step && remedy.step && html` <a href=${step + "/" + remedy.step}>Go to ${TITLES[remedy.step]}</a>`}</span>`}</li>`;
}

function Facts({ pairs }) {
  return html`<dl>${pairs.filter(([, value]) => value).map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>`;
}

function hardware(found) {
  if (!found) return html`<p class="soft">No inventory yet.</p>`;
  return html`<${Facts} pairs=${[["Machine", found.vendor], ["Serial", found.serial],
      ["CPU", found.cpus + " × " + (found.cpu_model || found.architecture)],
      ["Memory", (found.ram_mib / 1024).toFixed(1) + " GiB"], ["Firmware", found.boot]]} />
    <h4>Disks</h4><ul class="verdicts">${found.disks.map((disk) => html`<li>${disk.path}, ${size(disk.size_bytes)}, ${disk.type}${
      disk.model ? ", " + disk.model : ""}${disk.chosen ? ", installed on" : ""}${disk.eligible ? "" : ", not eligible: " + disk.reasons.join("; ")}</li>`)}</ul>
    <h4>Network</h4><ul class="verdicts">${found.nics.map((nic) => html`<li>${nic.name}, ${nic.mac}, ${
      nic.addresses.join(", ") || "no address"}${nic.carrier ? "" : ", no link"}</li>`)}</ul>`;
}

function Stages({ item }) {
  if (!item.stage) return null;
  const at = item.stages.indexOf(item.stage);
  const since = item.stage_since ? " (since " + new Date(item.stage_since).toLocaleTimeString() + ")" : "";
  return html`<progress max="100" value=${item.percentage} aria-labelledby=${"host-" + item.key}></progress>
    <ol class="stages">${item.stages.map((stage, index) => (index === at
      ? html`<li key=${stage} aria-current="step">${stage}${since}${item.stage_info ? ": " + item.stage_info : ""}${
        item.stage_timed_out ? " (takes longer than it should)" : ""}</li>`
      : html`<li key=${stage} class=${index < at ? "done" : "ahead"}>${stage}${index < at ? " (done)" : ""}</li>`))}</ol>`;
}

function Expected({ item }) {
  return html`<article class="expected" aria-labelledby=${"host-" + item.key}><h3 id=${"host-" + item.key}>${item.name || "Host " + item.id}</h3>
    <p><span class="status">expected</span>: has never been seen here</p><p>MAC address ${item.macs.join(", ")}</p>
    ${item.hint && html`<p class="warn">${item.hint}</p>`}</article>`;
}

class HostCard extends Component {
  /* Drawn again only when the service has said something about this host. */
  shouldComponentUpdate(next) { return next.item !== this.props.item || next.actions !== this.props.actions || next.step !== this.props.step; }

  render({ item, actions, step }) {
    if (item.expected) return html`<li><${Expected} item=${item} /></li>`;
    const wrong = failing(item.validations);
    const logs = () => fetchFile(`/clusters/${item.cluster_id}/logs?logs_type=host&host_id=${item.id}`, "host_" + item.id + ".tar.gz");
    return html`<li><article aria-labelledby=${"host-" + item.key}>
      <h3 id=${"host-" + item.key}>${item.name}</h3>
      <p class="soft">${item.role}${item.bootstrap ? ", bootstrap" : ""}</p>
      <p><${Status} value=${item.status} info=${item.status_info} /></p>
      <${Stages} item=${item} />
      ${wrong.length > 0 && html`<ul class="verdicts" aria-label="Validations that do not hold">
        ${wrong.map((verdict) => html`<${Verdict} key=${verdict.id} item=${verdict} step=${step} />`)}</ul>`}
      <${Details} summary=${`Validations: ${counted(item.validations)}, ${item.name}`}>${() => html`<ul class="verdicts">
        ${item.validations.filter((verdict) => !wrong.includes(verdict)).map((verdict) => html`<${Verdict} key=${verdict.id} item=${verdict} />`)}</ul>`}<//>
      <${Details} summary=${"Inventory of " + item.name}>${() => hardware(item.hardware)}<//>
      ${item.logs && html`<button type="button" onClick=${logs}>Download logs of ${item.name}</button>`}
      ${actions && actions(item)}</article></li>`;
  }
}

export function HostList({ items, actions, step, label }) {
  return html`<ul id="hosts" aria-label=${label}>${items.map((item) => html`<${HostCard} key=${item.key} item=${item} actions=${actions} step=${step} />`)}</ul>`;
}
