/* Fields of forms: label, help, the service's verdict and somebody else's change, each beside its field. */
import { mayChange } from "./api.js";
import { html, useLayoutEffect, useRef, useState } from "./vendor/preact-htm.js";

const shown = (value) => (typeof value === "string" ? value : JSON.stringify(value)) || "nothing";

/* A field's notes, and the ids by which a screen reader finds them. */
function aid(form, name, help) {
  const id = form.id + "-" + name;
  const problem = form.problems?.[name] || "";
  const theirs = name in form.draft.conflicts ? form.draft.conflicts[name] : undefined;
  const described = [help && id + "-help", problem && id + "-problem", theirs !== undefined && id + "-theirs"].filter(Boolean);
  const notes = html`${help && html`<span id=${id + "-help"} class="soft">${help}</span>`}
    ${problem && html`<span id=${id + "-problem"} class="bad">${" "}${problem}</span>`}
    ${theirs !== undefined && html`<div id=${id + "-theirs"} class="notice" role="alert">
      Changed meanwhile in another browser, to: ${shown(theirs)}
      <span class="row"><button type="button" onClick=${() => form.draft.keepMine(name)}>Keep mine</button>
      <button type="button" onClick=${() => form.draft.takeTheirs(name)}>Take theirs</button></span></div>`}`;
  const props = { id, name, "aria-describedby": described.join(" ") || null, "aria-invalid": problem ? "true" : null,
    disabled: !mayChange() || form.locked };
  return { id, props, notes };
}

/* `form`: {id, draft, problems, locked}; `name` is the API's own. */
export function Text({ form, name, label, help, type = "text", required = false, placeholder = "" }) {
  const { id, props, notes } = aid(form, name, help);
  return html`<div class="field"><label for=${id}>${label}</label>
    <input ...${props} type=${type} value=${form.draft.values[name] ?? ""} required=${required} placeholder=${placeholder}
      autocomplete="off" spellcheck=${false} onInput=${(event) => form.draft.set(name, event.target.value)} />${notes}</div>`;
}

export function Area({ form, name, label, help, rows = 4, placeholder = "" }) {
  const { id, props, notes } = aid(form, name, help);
  return html`<div class="field"><label for=${id}>${label}</label>
    <textarea ...${props} rows=${rows} value=${form.draft.values[name] ?? ""} placeholder=${placeholder}
      autocomplete="off" spellcheck=${false} onInput=${(event) => form.draft.set(name, event.target.value)}></textarea>${notes}</div>`;
}

/* `options`: pairs of value and text. */
export function Select({ form, name, label, help, options }) {
  const { id, props, notes } = aid(form, name, help);
  const value = form.draft.values[name] ?? "";
  return html`<div class="field"><label for=${id}>${label}</label>
    <select ...${props} value=${value} onChange=${(event) => form.draft.set(name, event.target.value)}>
      ${options.map(([key, text, off]) => html`<option key=${key} value=${key} disabled=${off} selected=${key === value}>${text}</option>`)}
    </select>${notes}</div>`;
}

export function Check({ form, name, label, help }) {
  const { id, props, notes } = aid(form, name, help);
  return html`<div class="check"><input ...${props} type="checkbox" checked=${!!form.draft.values[name]}
    onChange=${(event) => form.draft.set(name, event.target.checked)} />
    <span><label for=${id}>${label}</label> ${notes}</span></div>`;
}

/* Sends what was changed unless somebody else has changed the same meanwhile; says what became of it. */
export function useSaving() {
  const [outcome, setOutcome] = useState({ kind: "", text: "" });
  const [busy, setBusy] = useState(false);
  async function run(work, done = "Saved.") {
    setBusy(true);
    setOutcome({ kind: "", text: "" });
    try {
      const text = await work();
      setOutcome({ kind: "good", text: typeof text === "string" ? text : done });
      return true;
    } catch (error) {
      setOutcome({ kind: "bad", text: error.message });
      return false;
    } finally { setBusy(false); }
  }
  return { outcome, busy, run };
}

/* The service's own words, and which of the form's fields they are about. */
export function problemsIn(text, names) {
  const found = {};
  for (const part of (text || "").split("; ")) {
    const name = names.find((item) => new RegExp("(^|[^a-z_])" + item + "($|[^a-z_])").test(part));
    if (name) found[name] = (found[name] ? found[name] + "; " : "") + part;
  }
  return found;
}

export function Outcome({ saving }) {
  const { kind, text } = saving.outcome;
  return html`<p class=${"notice " + kind} role=${kind === "bad" ? "alert" : "status"} hidden=${!text}>${text}</p>`;
}

/* A button that asks before it does anything: the question takes its place, with the focus on the way back. */
export function Asking({ label, question, yes, busy, work }) {
  const [asking, setAsking] = useState(false);
  const back = useRef(null);
  /* Once, when it asks: what the service says meanwhile must not move the focus. */
  useLayoutEffect(() => { if (asking) back.current.focus(); }, [asking]);
  if (!asking) return html`<button type="button" class="danger" disabled=${busy} onClick=${() => setAsking(true)}>${label}</button>`;
  return html`<div class="notice bad" role="group" aria-label=${question}><p>${question}</p><div class="row">
    <button type="button" ref=${back} onClick=${() => setAsking(false)}>No, go back</button>
    <button type="button" class="danger" onClick=${() => { setAsking(false); work(); }}>${yes}</button></div></div>`;
}

/* `waits`: why it cannot be sent yet, which is said beside what was entered. */
export function Buttons({ form, saving, label = "Save", waits = "", children }) {
  if (!mayChange()) return html`<p class="notice">The user's token is needed to change anything.</p>`;
  return html`<${Outcome} saving=${saving} />
    <p class="notice" role="status" hidden=${!waits}>${waits}</p><div class="row">
    <button type="submit" class="primary" disabled=${saving.busy || form.locked || !!waits}>${saving.busy ? "Saving…" : label}</button>
    ${form.draft.dirty && !form.isNew && html`<button type="button" onClick=${() => form.draft.clear()}>Discard what I entered</button>`}
    ${children}</div>`;
}
