/* The page: its addresses, the overview of all clusters, and the steps of one. */
import { cluster as at, mayChange, scheme, tokenOf } from "./api.js";
import { remembers, restore, useResource } from "./draft.js";
import { counted, Details as Fold, failing, HostList, Status, Verdict } from "./hostcard.js";
import { TITLES } from "./remedies.js";
import { Details, NewCluster } from "./steps/details.js";
import { Hosts } from "./steps/hosts.js";
import { DiscoveryImage } from "./steps/image.js";
import { Manifests } from "./steps/manifests.js";
import { Networking } from "./steps/networking.js";
import { Actions, Bar, EDITABLE, Files, Progress } from "./steps/progress.js";
import { Review } from "./steps/review.js";
import { connect, forget, hostsOf, imageOf, say, useStore } from "./store.js";
import { html, render, useEffect, useLayoutEffect, useRef, useState } from "./vendor/preact-htm.js";

const PAGES = { details: Details, image: DiscoveryImage, hosts: Hosts, networking: Networking, manifests: Manifests, review: Review,
  progress: Progress };
const STEPS = Object.entries(TITLES).map(([key, title]) => [key, title, PAGES[key]]);
const $ = (id) => document.getElementById(id);

function Events({ events }) {
  const [serious, setSerious] = useState(false);
  const frame = useRef(null), atEnd = useRef(true);
  /* The log stays at its end, unless the reader has scrolled back. */
  useLayoutEffect(() => { if (atEnd.current) frame.current.scrollTop = frame.current.scrollHeight; }, [events, serious]);
  const look = ({ currentTarget: log }) => { atEnd.current = log.scrollTop + log.clientHeight > log.scrollHeight - 40; };
  return html`<section aria-labelledby="events-title"><h2 id="events-title">Events</h2>
    <div class="row"><label for="severity">Show</label>
    <select id="severity" onChange=${(event) => setSerious(event.target.value === "serious")}>
      <option value="all">all events</option><option value="serious">warnings and errors</option></select></div>
    <div id="log" role="log" aria-live="polite" aria-relevant="additions" aria-labelledby="events-title"
      tabindex="0" ref=${frame} onScroll=${look}>
    <ul id="events" class=${serious ? "serious" : ""}>${events.map((event) => html`<li key=${event.number + event.time} class=${event.severity}>
      <time datetime=${event.time}>${new Date(event.time).toLocaleTimeString()}</time>
      ${event.severity !== "info" && html`<span class=${"status " + (event.severity === "warning" ? "warn" : "bad")}>${event.severity}: </span>`}${event.message}</li>`)}</ul></div></section>`;
}

function ClusterCard({ shown }) {
  const label = "cluster-" + shown.id, step = "#/clusters/" + shown.id, wrong = failing(shown.validations);
  const about = [shown.version, shown.platform, shown.control_plane_count + " control plane",
    shown.api_vips.length ? "API " + shown.api_vips.join(", ") : "", shown.ingress_vips.length ? "ingress " + shown.ingress_vips.join(", ") : ""];
  return html`<article aria-labelledby=${label}><h2 id=${label}>Cluster ${shown.name}${shown.domain ? "." + shown.domain : ""}</h2>
    <p class="soft">${about.filter(Boolean).join(" · ")}</p>
    <p role="status"><${Status} value=${shown.status} info=${shown.status_info} /></p><${Bar} shown=${shown} />
    ${wrong.length > 0 && html`<ul class="verdicts" aria-label="Validations of the cluster that do not hold">
      ${wrong.map((item) => html`<${Verdict} key=${item.id} item=${item} step=${mayChange() ? step : ""} />`)}</ul>`}
    <${Fold} summary=${"Validations of the cluster: " + counted(shown.validations)}>${() => html`<ul class="verdicts">
      ${shown.validations.filter((item) => !wrong.includes(item)).map((item) => html`<${Verdict} key=${item.id} item=${item} />`)}</ul>`}<//>
    <${Files} shown=${shown} />
    ${mayChange() && html`<p><a href=${step + "/" + (shown.status === "ready" ? "review" : EDITABLE.includes(shown.status) ? "hosts" : "progress")}>${
      EDITABLE.includes(shown.status) ? "Configure and install " : "Follow "}${shown.name}</a></p>`}</article>`;
}

function Overview({ state }) {
  const hosts = [...state.hosts.values()].sort((a, b) => a.rank - b.rank);
  return html`<section id="clusters" aria-label="Clusters">
      ${[...state.clusters.values()].map((shown) => html`<${ClusterCard} key=${shown.id} shown=${shown} />`)}</section>
    ${mayChange() && html`<p><a class="create" href="#/new">Create a cluster</a></p>`}
    <section aria-labelledby="hosts-title"><h2 id="hosts-title">Hosts</h2>
      ${state.ready && !hosts.length && html`<p id="no-hosts" class="soft">No host has registered yet.</p>`}
      <${HostList} items=${hosts} label="Hosts" /></section>
    <${Events} events=${state.events} />`;
}

function Cluster({ state, id, name, go }) {
  const shown = state.clusters.get(id);
  /* The stream may be a second behind the API, by which this page has just registered it. */
  const { problem, status } = useResource(!shown && state.ready && mayChange() ? at(id) : null, state.connected);
  if (!shown && (!state.ready || (mayChange() && status !== 404))) return html`<p class="soft">${problem || "Loading…"}</p>`;
  if (!shown) {
    return html`<p role="status">There is no such cluster any more.</p>
      ${mayChange() && remembers("new cluster") && html`<button type="button" onClick=${() => { restore("new cluster"); go("#/new"); }}>
        Create it again with what was entered</button>`}`;
  }
  const step = "#/clusters/" + id, locked = !EDITABLE.includes(shown.status);
  const [, title, Step] = STEPS.find(([key]) => key === name) || STEPS[0];
  const place = STEPS.findIndex(([key]) => key === name), next = STEPS[place + 1];
  const own = new Set(hostsOf(id).map((item) => item.id));
  return html`<h2>Cluster ${shown.name}${shown.domain ? "." + shown.domain : ""}</h2>
    <p role="status"><${Status} value=${shown.status} info=${shown.status_info} /></p>
    <nav aria-label="Steps"><ol>${STEPS.map(([key, text]) => html`<li key=${key}><a href=${step + "/" + key} aria-current=${key === name ? "step" : null}>${text}</a></li>`)}</ol></nav>
    <section aria-labelledby="step-title"><h2 id="step-title" tabindex="-1">${title}</h2>
      ${locked && name !== "progress" && html`<p class="notice">The cluster is ${shown.status}: its settings can no longer be changed.</p>`}
      <${Step} key=${id + name} id=${id} shown=${shown} step=${step} go=${go} locked=${locked} infraEnv=${imageOf(id)} />
      ${next && name !== "review" && html`<p><a href=${step + "/" + next[0]}>Next: ${next[1]}</a></p>`}
      ${!locked && name === "details" && html`<${Actions} shown=${shown} go=${go} />`}</section>
    <${Events} events=${state.events.filter((event) => (event.cluster_id ? event.cluster_id === id : own.has(event.host_id)))} />`;
}

/* An address that is none of the page's own, such as the skip link's, leaves the page where it is. */
const route = () => (location.hash.startsWith("#/") ? location.hash : "");

function App() {
  const state = useStore();
  const [hash, setHash] = useState(route() || "#/");
  const go = (address) => { location.hash = address; };
  useLayoutEffect(() => {
    const follow = () => {
      if (location.hash && !route()) return;
      setHash(route() || "#/");
      say("");
    };
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  $("rights").textContent = mayChange() ? "With the user's token this page changes what it shows, by the service's API."
    : "Without the user's token this page only shows. It changes nothing.";
  /* After a link was followed, the focus is on the heading it leads to. */
  const first = useRef(true);
  useLayoutEffect(() => {
    if (!first.current) $("step-title")?.focus();
    first.current = false;
  }, [hash]);
  /* For measurements: everything is drawn and can be used. */
  const { ready } = state;
  useEffect(() => { if (ready) performance.mark("interactive"); }, [ready]);
  const [, where, id, name] = hash.split("/");
  const home = where ? html`<p><a href="#/">All clusters</a></p>` : null;
  if (where === "new") return html`${home}<${NewCluster} go=${go} />`;
  if (where === "clusters") return html`${home}<${Cluster} state=${state} id=${id} name=${name || "details"} go=${go} />`;
  return html`<${Overview} state=${state} />`;
}

$("token-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const typed = $("token").value;
  $("token").value = "";
  try { sessionStorage.setItem("token", await tokenOf(typed)); } catch (error) { say(error.message); return; }
  say("");
  connect();
});
$("forget").addEventListener("click", () => { sessionStorage.removeItem("token"); forget(); connect(); });
if (scheme() === "") $("token-form").hidden = false;
render(html`<${App} />`, $("main"));
connect();
