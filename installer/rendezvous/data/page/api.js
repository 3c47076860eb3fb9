/* The documented REST API (assisted-service v2), asked with the token of this tab. */
export const API = "/api/assisted-install/v2";
const HEADERS = { userAuth: "Authorization", watcherAuth: "Watcher-Authorization" };

export function scheme() {
  try {
    const part = (sessionStorage.getItem("token") || "").split(".")[1];
    return JSON.parse(atob(part.replace(/-/g, "+").replace(/_/g, "/"))).auth_scheme || "";
  } catch (error) { return ""; }
}

export function headers() {
  const name = HEADERS[scheme()];
  return name ? { [name]: sessionStorage.getItem("token") } : {};
}

/* Only the user's token may change anything; the service decides, this only hides what it would refuse. */
export const mayChange = () => scheme() === "userAuth";

export class ApiError extends Error {
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

async function ask(method, path, body, etag) {
  const sent = body === undefined ? {} : { body: JSON.stringify(body) };
  const kind = { ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...(etag ? { "If-Match": etag } : {}) };
  let answer;
  try {
    answer = await fetch(path.startsWith("/page/") ? path : API + path, { method, headers: { ...headers(), ...kind }, cache: "no-store", ...sent });
  } catch (error) {
    throw new ApiError(0, "The service does not answer. What you have entered is kept: try again when the page is live.");
  }
  if (answer.ok) return answer;
  let said = {};
  try { said = await answer.json(); } catch (error) { /* a proxy's page: its status is all there is to say */ }
  const reason = said.reason || said.message || "the service answered " + answer.status;
  throw new ApiError(answer.status, answer.status === 401 && path !== CODES ? "The service does not take this token: " + reason : reason);
}

async function content(answer) {
  const text = await answer.text();
  if (!text) return null;
  return (answer.headers.get("Content-Type") || "").includes("json") ? JSON.parse(text) : text;
}

/* The answer's JSON, its text when it is another type, null when it is empty. Throws ApiError: of status 412 where
   `etag` names another state than there is. */
export const call = async (method, path, body, etag) => content(await ask(method, path, body, etag));

export const get = (path) => call("GET", path);

/* What there is, and the name of its state. Throws ApiError. */
export async function read(path) {
  const answer = await ask("GET", path);
  return { value: await content(answer), etag: answer.headers.get("ETag") };
}

/* A small file as the browser's download. Throws ApiError. */
export async function download(path, name) {
  const answer = await ask("GET", path);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await answer.blob());
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

/* The token for what a person has typed: itself, or the one that a rendezvous host's code stands for. Throws ApiError. */
const CODES = "/page/token";
export async function tokenOf(typed) {
  const text = typed.trim().replace(/^Bearer /, "");
  return /^[a-z]{4}[ -]?[a-z]{4}$/i.test(text) ? (await call("POST", CODES, { code: text })).token : text;
}

/* Paths of the API, with ids escaped. */
export const cluster = (id, rest = "") => "/clusters/" + encodeURIComponent(id) + rest;
export const infraEnv = (id, rest = "") => "/infra-envs/" + encodeURIComponent(id) + rest;
export const host = (item, rest = "") => infraEnv(item.infra_env_id, "/hosts/" + encodeURIComponent(item.id) + rest);

/* Base64 of UTF-8. */
export const encoded = (text) => btoa(String.fromCharCode(...new TextEncoder().encode(text)));
