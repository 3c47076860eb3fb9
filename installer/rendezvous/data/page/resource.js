/* The API's own answer about a cluster or an infra-env, for forms: fetched again when it may have changed. */
import { ApiError, call, get } from "./api.js";
import { useEffect, useState } from "./vendor/preact-htm.js";

/* {value, problem, reload}; `again` is anything that changes when the answer may have changed. */
export function useResource(path, again) {
  const [answer, setAnswer] = useState({ value: null, problem: "", path });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    let over = false;
    if (!path) return undefined;
    get(path).then((value) => { if (!over) setAnswer({ value, problem: "", path }); },
      (error) => { if (!over) setAnswer((before) => ({ ...before, path, problem: error.message })); });
    return () => { over = true; };
  }, [path, again, turn]);
  return { ...answer, value: answer.path === path ? answer.value : null, reload: () => setTurn((count) => count + 1) };
}

/* Changes what the form has changed, and nothing that somebody else has changed since the form began.

   `read` makes the form's values of the API's answer, `body` the request's of the form's changed values; `also` sends
   what has an address of its own. */
export async function patch({ path, draft, read, body, reload, also }) {
  const latest = read(await get(path));
  const { changed, conflicts } = draft.against(latest);
  if (Object.keys(conflicts).length) {
    reload();
    throw new ApiError(409, "Not saved: " + Object.keys(conflicts).join(", ") + " was changed in another browser meanwhile. "
      + "Choose beside the field which value is to stay, then save again.");
  }
  const sent = body(changed, { ...latest, ...changed });
  if (Object.keys(sent).length) await call("PATCH", path, sent);
  if (also) await also(changed);
  draft.saved({ ...latest, ...changed });
  reload();
}

export const list = (text) => (text || "").split(/[\s,]+/).filter(Boolean);
export const joined = (items) => (items || []).join(", ");
