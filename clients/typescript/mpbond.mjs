// Client of mpbond's API (docs/api.md) for Node.js 18 or later: one file without dependencies.
// mpbond.d.mts has its types for TypeScript.

import http from "node:http";
import { createInterface } from "node:readline";

export const DEFAULT_SOCKET = "/run/mpbond/primary.api";

/** A request that was refused: HTTP status, reason and place in the body, if there is one. */
export class ApiError extends Error {
  constructor(status, reason, place) {
    super(`${status}: ${reason}`);
    this.name = "ApiError";
    this.status = status;
    this.reason = reason;
    this.place = place;
  }
}

async function textOf(response) {
  response.setEncoding("utf8");
  let text = "";
  for await (const part of response) text += part;
  return text;
}

function refusal(status, text) {
  try {
    const { error, place } = JSON.parse(text);
    if (typeof error === "string") return new ApiError(status, error, place);
  } catch {
    // Not an answer of the API: its text is the reason.
  }
  return new ApiError(status, text.trim());
}

/** A primary, by the socket of its API. */
export class Client {
  #path;
  #timeoutMs;

  constructor(path = DEFAULT_SOCKET, timeoutMs = 10_000) {
    this.#path = path;
    this.#timeoutMs = timeoutMs;
  }

  async #open(method, resource, { body = "", headers = {}, timeoutMs, signal } = {}) {
    const limit = timeoutMs ?? this.#timeoutMs;
    const response = await new Promise((resolve, reject) => {
      const request = http.request({
        socketPath: this.#path,
        method,
        path: resource,
        headers: { Host: "mpbond", "Content-Length": Buffer.byteLength(body), ...headers },
        timeout: limit,
        signal,
      });
      let answer = request;
      const late = () => answer.destroy(new Error(`nothing came for ${limit} ms`));
      request.on("timeout", late).on("error", reject);
      request.on("response", (response) => resolve((answer = response)));
      request.end(body);
    });
    if (response.statusCode === 200) return response;
    throw refusal(response.statusCode, await textOf(response));
  }

  async #text(method, resource, options) {
    const response = await this.#open(method, resource, options);
    return [await textOf(response), response.headers.etag];
  }

  async #json(method, resource, value) {
    const body = value === undefined ? "" : JSON.stringify(value);
    const [text] = await this.#text(method, resource, { body });
    return JSON.parse(text);
  }

  /** The status, as `mpbond status --json` prints it. */
  status() {
    return this.#json("GET", "/v1/status");
  }

  /** All open streams of applications, read in pages; with `app` or `destination` those only. */
  async *streams(page = 100, only = {}) {
    let after = 0;
    while (after !== undefined) {
      const query = new URLSearchParams({ after, limit: page });
      for (const [key, value] of Object.entries(only)) if (value != null) query.set(key, value);
      // A plus sign is not a space in this API.
      const text = query.toString().replaceAll("+", "%20");
      const answer = await this.#json("GET", `/v1/streams?${text}`);
      yield* answer.streams;
      after = answer.next;
    }
  }

  /** An open connection, by its id or the address of the application's socket. */
  stream(id) {
    return this.#json("GET", `/v1/streams/${encodeURIComponent(id)}`);
  }

  /** Why an open connection is treated as it is: its rule, and the links that it may use. */
  explainStream(id) {
    return this.#json("GET", `/v1/streams/${encodeURIComponent(id)}/explain`);
  }

  /** Sets the class of an open connection. Returns the connection. */
  setClass(id, streamClass) {
    return this.#json("PATCH", `/v1/streams/${encodeURIComponent(id)}`, { class: streamClass });
  }

  /** A chunk of an open connection ends after so many bytes. Returns the connection. */
  markChunkEnd(id, ends) {
    return this.#json("PATCH", `/v1/streams/${encodeURIComponent(id)}`, { chunk_end: ends });
  }

  /** Paths and helpers. */
  async links() {
    return (await this.#json("GET", "/v1/links")).links;
  }

  /** A path or helper. */
  link(name) {
    return this.#json("GET", `/v1/links/${encodeURIComponent(name)}`);
  }

  /** Sets a link's mode: "bonded", "standby" or "off". Returns the link. */
  setMode(name, mode) {
    return this.#json("PATCH", `/v1/links/${encodeURIComponent(name)}`, { mode });
  }

  /** Tells what is known of a link: metered (with metered_guessed: true as a guess), roaming,
   *  signal_dbm (for 5 s); null where it is not. Returns the link. */
  setFacts(name, facts) {
    return this.#json("PATCH", `/v1/links/${encodeURIComponent(name)}`, facts);
  }

  /** The proxy, and the devices that lend their links. */
  async devices() {
    return (await this.#json("GET", "/v1/devices")).devices;
  }

  /** Takes a helper out of use, by its id. Returns the devices that are left. */
  async unpair(id) {
    return (await this.#json("DELETE", `/v1/devices/${encodeURIComponent(id)}`)).devices;
  }

  /** The pairing that was begun last. */
  pairing() {
    return this.#json("GET", "/v1/pairing");
  }

  /** Begins a pairing. Returns it, with its code. */
  beginPairing(options = {}) {
    return this.#json("POST", "/v1/pairing", options);
  }

  /** Whether the device with this id, which has called, is trusted. Returns the pairing. */
  answerPairing(device, trust) {
    return this.#json("PATCH", "/v1/pairing", { device, trust });
  }

  /** Cancels a pairing, or forgets its result. */
  cancelPairing() {
    return this.#json("DELETE", "/v1/pairing");
  }

  /** The policy in force, and its tag for `putPolicy`. */
  async policy() {
    const [text, tag] = await this.#text("GET", "/v1/policy");
    return { text, tag };
  }

  /** Errors of a policy: a list, empty if it is right. */
  async checkPolicy(text) {
    const [answer] = await this.#text("POST", "/v1/policy:check", { body: text });
    return JSON.parse(answer).errors;
  }

  /** Puts a policy in force, unless that with this tag has changed. Returns the new tag. */
  async putPolicy(text, tag) {
    const options = { body: text, headers: { "If-Match": tag } };
    const [, after] = await this.#text("PUT", "/v1/policy", options);
    return after;
  }

  /** The mode of the policy: "auto", "fastest", "balanced" or "saver". */
  async policyMode() {
    return (await this.#json("GET", "/v1/mode")).mode;
  }

  /** Sets the mode of the policy, whose rest stays. Returns it. */
  async setPolicyMode(mode) {
    return (await this.#json("PUT", "/v1/mode", { mode })).mode;
  }

  /** What the policy decides about a connection with these facts, and why. */
  explain(facts) {
    return this.#json("POST", "/v1/explain", facts);
  }

  /**
   * Events after the one with this id; without it, those from now on. Ends with the daemon. Fails
   * when none comes for `timeoutMs`, or when `signal` is aborted.
   */
  async *events({ since, timeoutMs = 86_400_000, signal } = {}) {
    const query = since === undefined ? "" : `?since=${since}`;
    yield* this.#lines(`/v1/events${query}`, { timeoutMs, signal });
  }

  /** Counters of all links, at this interval. Ends with the daemon, or when `signal` is aborted. */
  async *samples({ everyMs = 1000, signal } = {}) {
    const timeoutMs = this.#timeoutMs + everyMs;
    yield* this.#lines(`/v1/samples?every_ms=${everyMs}`, { timeoutMs, signal });
  }

  async *#lines(resource, options) {
    const response = await this.#open("GET", resource, options);
    try {
      for await (const line of createInterface({ input: response })) yield JSON.parse(line);
    } finally {
      response.destroy();
    }
  }
}
