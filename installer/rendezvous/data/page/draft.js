/* A form's content: what it began with, what was entered, and what somebody else has changed meanwhile. */
import { useState } from "./vendor/preact-htm.js";

/* A pull secret, or an address with a login, as a proxy's may have. */
const secret = (name, value) => name === "pull_secret" || /:\/\/[^/\s]+@/.test(value);
export const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

function stored(key) {
  try { return JSON.parse(sessionStorage.getItem("draft " + key)) || null; } catch (error) { return null; }
}

/* Drafts outlive a reload, in this tab only and without secrets. */
function store(key, draft) {
  const kept = (values) => Object.fromEntries(Object.entries(values).filter(([name, value]) => !secret(name, value)));
  const entered = Object.keys(draft.mine).length > 0;
  if (entered) sessionStorage.setItem("draft " + key, JSON.stringify({ base: kept(draft.base), mine: kept(draft.mine) }));
  else sessionStorage.removeItem("draft " + key);
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
