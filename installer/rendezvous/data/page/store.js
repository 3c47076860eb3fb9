/* The state of the service, as its stream reports it. */
import { headers, mayChange } from "./api.js";
import { useLayoutEffect, useState } from "./vendor/preact-htm.js";

const MOST_EVENTS = 1000;
/* The service sends something every 15 s. */
const SILENT_MS = 40000;
export const state = { clusters: new Map(), hosts: new Map(), infraEnvs: new Map(), events: [], ready: false,
  version: "", connected: false };
const listeners = new Set();
const numbers = new Set();
let seen = new Set();
let pending = false;
let current = null;
let attempt = 0;
let since = "";
const $ = (id) => document.getElementById(id);

/* Many messages, one drawing. */
function changed() {
  if (pending) return;
  pending = true;
  queueMicrotask(() => { pending = false; listeners.forEach((tell) => tell()); });
}

/* Draws a component again whenever something has changed. */
export function useStore() {
  const [, redraw] = useState(0);
  /* Before the browser draws: what comes until then must not be missed. */
  useLayoutEffect(() => {
    const tell = () => redraw((count) => count + 1);
    listeners.add(tell);
    return () => listeners.delete(tell);
  }, []);
  return state;
}

export const hostsOf = (clusterId) => [...state.hosts.values()].filter((item) => item.cluster_id === clusterId)
  .sort((a, b) => a.rank - b.rank);
export const infraEnvOf = (clusterId) => [...state.infraEnvs.values()].find((item) => item.cluster_id === clusterId);
/* Its own, else the one that its hosts come from. */
export const imageOf = (clusterId) => infraEnvOf(clusterId) || state.infraEnvs.get(hostsOf(clusterId)[0]?.infra_env_id);

function setText(node, text) { if (node.textContent !== text) node.textContent = text; }

function showTitle() {
  const known = [...state.clusters.values()];
  const title = known.length === 1 ? known[0].name + ": " + known[0].status : known.length ? known.length + " clusters" : "";
  document.title = (since ? "Not connected - " : "") + (title ? title + " - " : "") + "node0";
}

export function say(problem) { setText($("problem"), problem); }

/* Without a connection, the page says since when what it shows is out of date. */
function connected() {
  since = "";
  state.connected = true;
  setText($("connection"), "Live");
  $("away").hidden = true;
  /* Whoever has the right to everything needs no further token. */
  $("token-entry").hidden = mayChange();
  $("main").classList.remove("away");
}

function notConnected(why) {
  since = since || new Date().toLocaleTimeString();
  state.connected = false;
  const old = state.hosts.size + state.clusters.size ? ". What is below is as it was at " + since : "";
  setText($("connection"), "Not connected: " + why + old + ".");
  $("main").classList.add("away");
  showTitle();
}

/* A machine that was booted from two images is a host of two infra-envs, with one id. */
const keyOf = (item) => (item.infra_env_id ? item.infra_env_id + "/" : "") + item.id;

function keep(map) {
  return (item) => {
    const key = keyOf(item);
    seen.add(key);
    map.set(key, { ...item, key });
  };
}

const TAKE = {
  hello: (about) => { seen = new Set(); state.version = about.version; },
  cluster: keep(state.clusters),
  host: keep(state.hosts),
  expected: (item) => keep(state.hosts)({ ...item, expected: true }),
  infra_env: keep(state.infraEnvs),
  gone: ({ key }) => [state.clusters, state.hosts, state.infraEnvs].forEach((map) => map.delete(key)),
  event: (item) => {
    /* A store made anew counts from the start: its events are told apart by their time. */
    const key = item.number + " " + item.time;
    if (numbers.has(key)) return;
    numbers.add(key);
    state.events = [...state.events, item].slice(-MOST_EVENTS);
  },
  ready: () => {
    for (const map of [state.clusters, state.hosts, state.infraEnvs]) {
      for (const key of [...map.keys()]) if (!seen.has(key)) map.delete(key);
    }
    state.ready = true;
    attempt = 0;
    say("");
    connected();
  },
};

function take(block) {
  let name = "message", data = "";
  for (const line of block.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    else if (line.startsWith("data: ")) data += line.slice(6);
  }
  if (data && TAKE[name]) TAKE[name](JSON.parse(data));
}

async function listen(own) {
  let timer = 0;
  const watch = () => { clearTimeout(timer); timer = setTimeout(() => own.abort(), SILENT_MS); };
  try {
    watch();
    const answer = await fetch("/page/stream", { headers: headers(), signal: own.signal, cache: "no-store" });
    $("token-form").hidden = !answer.ok && answer.status !== 401;
    if (answer.status === 401) {
      const refused = sessionStorage.getItem("token");
      $("token-entry").hidden = false;
      notConnected(refused ? "the service does not take this token" : "a token is needed");
      say(refused ? "The service does not take this token." : "A token is needed to look at this service.");
      return false;
    }
    if (!answer.ok) throw new Error("the service answered " + answer.status);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) throw new Error("the service has ended the connection");
      watch();
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      blocks.forEach(take);
      showTitle();
      changed();
    }
  } finally { clearTimeout(timer); }
}

/* Drops what a token was needed to see. */
export function forget() {
  [state.clusters, state.hosts, state.infraEnvs, numbers].forEach((known) => known.clear());
  state.events = [];
  state.ready = false;
}

/* Follows the stream until another call does; without an answer it tries again, ever more slowly. */
export async function connect() {
  if (current) current.abort();
  notConnected("connecting");
  changed();
  let mine;
  do {
    mine = current = new AbortController();
    let why = "";
    try {
      if (!await listen(mine)) { changed(); return; }
    } catch (error) {
      if (current !== mine) return;
      why = /^the service/.test(error.message) ? error.message : "the service does not answer";
    }
    attempt += 1;
    notConnected(why + "; trying again");
    $("away").hidden = false;
    changed();
    await new Promise((go) => setTimeout(go, Math.min(1000 * attempt, 10000)));
  } while (current === mine);
}
