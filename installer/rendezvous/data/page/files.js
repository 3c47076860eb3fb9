/* Downloads that need a token: the page asks for a missing one, and says when one is not enough. */
import { download } from "./api.js";
import { say } from "./store.js";

function needToken(name) {
  document.getElementById("token-form").hidden = false;
  document.getElementById("token").focus();
  say("A token is needed to download " + name + ".");
}

/* Downloads a file, or asks for the token that it needs. */
export function fetchFile(path, name) {
  say("");
  if (!sessionStorage.getItem("token")) { needToken(name); return; }
  download(path, name).catch((error) => say(error.status === 401
    ? "This token may not download " + name + ": the user's token may." : name + " cannot be downloaded: " + error.message));
}
