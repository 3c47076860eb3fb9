/* A form's content: what it began with, what was entered, and what somebody else has changed meanwhile. */
import { ApiError, call, get, read as stateOf } from "./api.js";
import { useEffect, useState } from "./vendor/preact-htm.js";

/* How often somebody else may be quicker. */
const TRIES = 4;

/* A pull secret, or an address with a login, as a proxy's may have. */
const secret = (name, value) => name === "pull_secret" || /:\/\/[^/\s]+@/.test(value);
export const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

function stored(key) {
  try { return JSON.parse(sessionStorage.getItem("draft " + key)) || null; } catch (error) { return null; }
}

const kept = (values) => Object.fromEntries(Object.entries(values).filter(([name, value]) => !secret(name, value)));

/* Drafts outlive a reload, in this tab only and without secrets. */
function store(key, draft) {
  const entered = Object.keys(draft.mine).length > 0;
  if (entered) sessionStorage.setItem("draft " + key, JSON.stringify({ base: kept(draft.base), mine: kept(draft.mine) }));
  else sessionStorage.removeItem("draft " + key);
}

/* A form that begins with what another one was sent with: a live host's service forgets its clusters when it restarts. */
export function remember(key, values) {
  sessionStorage.setItem("sent " + key, JSON.stringify(kept(values)));
}

export const remembers = (key) => !!sessionStorage.getItem("sent " + key);

export function restore(key) {
  sessionStorage.setItem("draft " + key, JSON.stringify({ base: {}, mine: JSON.parse(sessionStorage.getItem("sent " + key)) }));
}

/* Pure: `mine` has the fields that were changed, `base` what each of them was when that began. */
function compare({ base, mine }, server) {
  const changed = {}, conflicts = {};
  for (const [name, value] of Object.entries(mine)) {
    if (same(value, server[name])) continue;
    changed[name] = value;
    if (!same(base[name], server[name])) conflicts[name] = server[name];
  }
  return { changed, conflicts };
}

/* The draft of a form over the server's values; `server` may change at any time. */
export function useDraft(key, server) {
  const [draft, setDraft] = useState(() => stored(key) || { base: {}, mine: {} });
  const write = (next) => { store(key, next); setDraft(next); };
  const { changed, conflicts } = compare(draft, server);
  return {
    values: { ...server, ...draft.mine },
    changed,
    conflicts,
    dirty: Object.keys(changed).length > 0,
    set(name, value) {
      setDraft((before) => {
        const base = name in before.mine ? before.base : { ...before.base, [name]: server[name] };
        const mine = { ...before.mine, [name]: value };
        if (same(value, base[name])) { delete mine[name]; }
        const next = { base, mine };
        store(key, next);
        return next;
      });
    },
    /* Accepts that mine replaces somebody else's value. */
    keepMine(name) { write({ base: { ...draft.base, [name]: server[name] }, mine: draft.mine }); },
    takeTheirs(name) {
      const mine = { ...draft.mine };
      delete mine[name];
      write({ base: draft.base, mine });
    },
    against: (latest) => compare(draft, latest),
    clear() { write({ base: {}, mine: {} }); },
    /* What was sent is the server's now; what was entered while it was on its way stays a draft. */
    saved(sent) {
      setDraft((before) => {
        const mine = Object.fromEntries(Object.entries(before.mine).filter(([name, value]) => !same(value, sent[name])));
        const base = Object.fromEntries(Object.keys(mine).map((name) => [name, name in sent ? sent[name] : before.base[name]]));
        store(key, { base, mine });
        return { base, mine };
      });
    },
  };
}

/* The API's own answer, for forms: {value, problem, status, reload}. It is fetched again when `again` changes. */
export function useResource(path, again) {
  const [answer, setAnswer] = useState({ value: null, problem: "", path });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    let over = false;
    if (!path) return undefined;
    get(path).then((value) => { if (!over) setAnswer({ value, problem: "", path }); },
      (error) => { if (!over) setAnswer((before) => ({ ...before, path, problem: error.message, status: error.status })); });
    return () => { over = true; };
  }, [path, again, turn]);
  return { ...answer, value: answer.path === path ? answer.value : null, reload: () => setTurn((count) => count + 1) };
}

/* Changes what the form has changed, and nothing that somebody else has changed since the form began.

   `read` makes the form's values of the API's answer, `body` the request's of the form's changed values; `also` sends
   what has an address of its own. */
export async function patch(form, again = TRIES) {
  const { path, draft, read, body, reload, also } = form;
  const { value, etag } = await stateOf(path);
  const latest = read(value);
  const { changed, conflicts } = draft.against(latest);
  if (Object.keys(conflicts).length) {
    reload();
    throw new ApiError(409, "Not saved: " + Object.keys(conflicts).join(", ") + " was changed in another browser meanwhile. "
      + "Choose beside the field which value is to stay, then save again.");
  }
  const sent = body(changed, { ...latest, ...changed });
  try {
    if (Object.keys(sent).length) await call("PATCH", path, sent, etag);
  } catch (error) {
    /* Somebody else was quicker, maybe with another field. */
    if (error.status === 412 && again) return patch(form, again - 1);
    throw error;
  }
  if (also) await also(changed);
  draft.saved({ ...latest, ...changed });
  reload();
  return Object.keys(changed).length ? undefined : "Saved already: the service has these values.";
}

export const list = (text) => (text || "").split(/[\s,]+/).filter(Boolean);
export const joined = (items) => (items || []).join(", ");
