/* Custom manifests: files that are applied beside those of the release. */
import { call, cluster as at, encoded, mayChange } from "../api.js";
import { useDraft } from "../draft.js";
import { Area, Asking, Buttons, Outcome, Select, Text, problemsIn, useSaving } from "../fields.js";
import { useResource } from "../resource.js";
import { html } from "../vendor/preact-htm.js";

const EMPTY = { file_name: "", folder: "manifests", content: "", loaded: null };
const FOLDERS = [["manifests", "manifests"], ["openshift", "openshift"]];

export function Manifests({ id, shown, locked }) {
  const path = at(id, "/manifests");
  const { value, problem, reload } = useResource(path, shown);
  const draft = useDraft("manifest " + id, EMPTY);
  const saving = useSaving(), changing = useSaving();
  if (!value) return html`<p class="soft">${problem || "Loading…"}</p>`;
  const form = { id: "manifest", draft, locked, isNew: true,
    problems: problemsIn(saving.outcome.kind === "bad" ? saving.outcome.text : "", ["file_name", "content", "folder"]) };
  const named = (item) => `?folder=${item.folder}&file_name=${encodeURIComponent(item.file_name)}`;
  const textOf = (item) => call("GET", at(id, "/manifests/files" + named(item)));
  const submit = (event) => {
    event.preventDefault();
    const { file_name, folder, content } = draft.values;
    saving.run(async () => {
      const file = { folder, file_name: file_name.trim() };
      const there = value.some((item) => item.file_name === file.file_name && item.folder === folder);
      const now = there ? await textOf(file) : "";
      if (there && now !== draft.values.loaded) {
        draft.set("loaded", now);
        throw new Error(`Not saved: ${folder}/${file.file_name} exists, with another content than this form began with. Save again to replace it.`);
      }
      await call(there ? "PATCH" : "POST", path, { ...file, [there ? "updated_content" : "content"]: encoded(content) });
      draft.clear();
      reload();
      return `${there ? "Replaced" : "Added"} ${folder}/${file_name}.`;
    });
  };
  const load = async (event) => {
    const [file] = event.target.files;
    if (!file) return;
    draft.set("content", await file.text());
    draft.set("file_name", file.name);
  };
  const edit = (item) => changing.run(async () => {
    const text = await textOf(item);
    draft.set("loaded", text);
    draft.set("content", text);
    draft.set("file_name", item.file_name);
    draft.set("folder", item.folder);
    return `${item.file_name} is in the form below.`;
  });
  const remove = (item) => changing.run(async () => {
    await call("DELETE", path + named(item));
    reload();
    return `Removed ${item.file_name}.`;
  });
  return html`<p>They are applied when the cluster is installed, beside those of the release.</p>
    ${!value.length && html`<p class="soft">There is none.</p>`}
    <${Outcome} saving=${changing} />
    <ul aria-label="Custom manifests">${value.map((item) => html`<li key=${item.folder + item.file_name} class="row">${item.folder}/${item.file_name}
      ${mayChange() && !locked && html`<button type="button" onClick=${() => edit(item)}>Edit ${item.file_name}</button>
      <${Asking} label=${"Remove " + item.file_name} question=${`Remove ${item.folder}/${item.file_name}?`} yes="Yes, remove it" work=${() => remove(item)} />`}</li>`)}</ul>
    <form onSubmit=${submit} novalidate aria-label="Add a manifest">
      <div class="field"><label for="manifest-file">Read a file</label><input id="manifest-file" type="file" accept=".yaml,.yml,.json"
        disabled=${locked || !mayChange()} onChange=${load} /></div>
      <div class="grid"><${Text} form=${form} name="file_name" label="File name" placeholder="50-example.yaml" />
      <${Select} form=${form} name="folder" label="Folder" options=${FOLDERS} /></div>
      <${Area} form=${form} name="content" label="Content" rows=${10} /><${Buttons} form=${form} saving=${saving} label="Save manifest" /></form>`;
}
