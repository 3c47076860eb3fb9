/* An installation's progress, its end, and what can be done instead: cancel, reset, remove. */
import { call, cluster as at, get, infraEnv as ofInfraEnv, mayChange } from "../api.js";
import { Asking, Outcome, useSaving } from "../fields.js";
import { counted, Details, failing, HostList, Verdict } from "../hostcard.js";
import { fetchFile } from "../files.js";
import { hostsOf, infraEnvOf } from "../store.js";
import { html, useState } from "../vendor/preact-htm.js";

export const RUNNING = ["preparing-for-installation", "installing", "finalizing", "installing-pending-user-action"];
export const EDITABLE = ["insufficient", "pending-for-input", "ready"];

export function Bar({ shown }) {
  return html`<progress max="100" value=${shown.percentage} aria-label=${"Progress of " + shown.name}></progress>
    <p class="soft">${shown.percentage} % (preparing ${shown.preparing} %, installing ${shown.installing} %, finalizing ${shown.finalizing} %${
      shown.finalizing_stage ? ", " + shown.finalizing_stage : ""})</p>`;
}

export function Files({ shown }) {
  return html`<div class="row">
    ${shown.kubeconfig && html`<button type="button" onClick=${() => fetchFile(at(shown.id, "/downloads/credentials?file_name=kubeconfig"), "kubeconfig")}>Download kubeconfig</button>`}
    ${shown.logs && html`<button type="button" onClick=${() => fetchFile(at(shown.id, "/logs?logs_type=all"), "logs.tar")}>Download logs</button>`}</div>`;
}

function Console({ shown }) {
  const [login, setLogin] = useState(null);
  const saving = useSaving();
  /* As soon as there is one: a rendezvous host that becomes a node itself is gone before the cluster is installed. */
  if (!shown.kubeconfig) return null;
  return html`<h3>Console</h3><${Outcome} saving=${saving} />
    ${login ? html`<dl><dt>Address</dt><dd><a href=${login.console_url} rel="noreferrer">${login.console_url}</a></dd><dt>User</dt><dd>${login.username}</dd>
      <dt>Password</dt><dd><code>${login.password}</code></dd></dl>`
    : mayChange() && html`<button type="button" onClick=${() => saving.run(async () => setLogin(await get(at(shown.id, "/credentials"))), "")}>Show the console's address and login</button>`}`;
}

export function Actions({ shown, go }) {
  const saving = useSaving();
  if (!mayChange()) return null;
  const running = RUNNING.includes(shown.status);
  const action = (name, done) => () => saving.run(() => call("POST", at(shown.id, "/actions/" + name)).then(() => done));
  const again = "Its hosts must be booted from the image again";
  return html`<${Outcome} saving=${saving} /><div class="row">
    ${running && html`<${Asking} label="Cancel the installation" yes="Yes, cancel it" busy=${saving.busy}
      question=${`Cancel the installation of ${shown.name}? ${again}.`} work=${action("cancel", "Cancelled.")} />`}
    ${(running || ["cancelled", "error"].includes(shown.status)) && html`<${Asking} label="Reset the cluster" yes="Yes, begin anew" busy=${saving.busy}
      question=${`Begin anew with ${shown.name}? ${again}; all settings stay.`} work=${action("reset", "Reset.")} />`}
    ${!running && html`<${Asking} label="Remove the cluster from this service" yes="Yes, remove it" busy=${saving.busy}
      question=${infraEnvOf(shown.id) ? `Remove ${shown.name}, its discovery image and its hosts from this service?`
        : `Remove ${shown.name} from this service? Its hosts can be added to another cluster.`}
      work=${() => saving.run(async () => {
        const own = infraEnvOf(shown.id);
        await call("DELETE", at(shown.id));
        if (own) await call("DELETE", ofInfraEnv(own.id));
        go("#/");
      })} />`}</div>`;
}

export function Progress({ id, shown, step, go }) {
  const wrong = failing(shown.validations);
  return html`<${Bar} shown=${shown} />
    ${shown.status === "installed" && html`<p class="notice good">The cluster is installed.</p>`}
    <${Files} shown=${shown} /><${Console} shown=${shown} />
    <${Actions} shown=${shown} go=${go} />
    <${Details} summary=${"Validations of the cluster: " + counted(shown.validations)}>${() => html`<ul class="verdicts">
      ${shown.validations.map((item) => html`<${Verdict} key=${item.id} item=${item} step=${step} />`)}</ul>`}<//>
    <h3>Hosts</h3><${HostList} items=${hostsOf(id)} step=${step} label="Hosts of this cluster" />
    ${wrong.length > 0 && !RUNNING.includes(shown.status) && html`<p><a href=${step + "/review"}>What does not hold</a></p>`}`;
}
