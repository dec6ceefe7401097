// Requests to the server. Of the requests of one session to one path, the server drops all waiting ones but the newest,
// and browsers report every dropped one as an error. So each pending request of the page has a session of its own, and
// `latestOnly` sees to it that few are sent.

import { beginBusy, endBusy, showStatus } from "./feedback.js";
import { t } from "./i18n.js";

const bytes = crypto.getRandomValues(new Uint8Array(12));
const session = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

// The server rejected a request.
export class ApiError extends Error {
  constructor(status, body, path) {
    super(describe(status, body));
    this.status = status;
    this.path = path;
  }
}

// The server did not respond.
export class ConnectionError extends Error {}

let rejected = null; // the path of the request whose rejection is shown; only its own success removes the message

async function send(path, options = {}) {
  const headers = { "X-Session": session, ...options.headers };
  let response;
  let body = {};
  try {
    response = await fetch(path, { ...options, headers });
    body = await response.json();
  } catch {
    if (!response || response.ok) throw new ConnectionError(path); // an error response may have no JSON body
  }
  if (response.ok) {
    if (rejected === null || rejected === path) {
      rejected = null;
      showStatus("");
    }
    return body;
  }
  throw new ApiError(response.status, body, path);
}

// What the server says about an error is for programs; what a visitor can meet has a sentence of the page.
function describe(status, { detail, model, data }) {
  if (status === 503 && model) return t("The weights of {model} trained on {data} are not installed. Reinstall torchcaps to get them.", { model, data });
  if (status === 429) return t("The server is busy; the page tries again in a moment.");
  return typeof detail === "string" ? t("The server returned error {status}: {detail}", { status, detail })
    : t("The server returned error {status}.", { status });
}

export function get(path) {
  return send(path);
}

function post(path, body, place) {
  const headers = { "Content-Type": "application/json", "X-Session": `${session}-${place}` };
  return send(path, { method: "POST", headers, body: JSON.stringify(body) });
}

const cache = new Map();

// GET once per page, for the examples and the list of toys, which do not change.
export function getCached(path) {
  if (!cache.has(path)) {
    const response = get(path);
    response.catch(() => cache.delete(path));
    cache.set(path, response);
  }
  return cache.get(path);
}

let senders = 0; // functions that `latestOnly` returned

export const RETRY_DELAY = 2000; // milliseconds until the next try when the server does not respond
const STALE_DELAY = 1000; // milliseconds until the shown results are dimmed as outdated

// Returns a function that posts a body. At most `most` requests are pending at a time; of the bodies posted meanwhile
// only the newest is sent. Requests are repeated while the server does not respond. The next request is sent before a
// response is shown, so that the server computes while the page draws. With two pending requests the server need not
// wait for a page that is busy drawing, but what is shown is older: use it for short requests only.
// onResponse(response, body); onMissing(message or null) reports missing weights.
export function latestOnly(path, stage, onResponse, onMissing = () => {}, most = 1) {
  senders += 1;
  const sender = senders;
  const pending = []; // promises, the oldest first
  let count = 0;
  let waiting = null;
  let running = false;
  let retrying = false;

  function markStale(stale) {
    stage.classList.toggle("stale", stale);
  }

  // Send what is waiting, unless `most` requests are pending or the server does not respond.
  function sendNext() {
    if (!waiting || retrying || pending.length >= most) return;
    const body = waiting;
    waiting = null;
    const timer = setTimeout(markStale, STALE_DELAY, true);
    count += 1;
    // They end in the order in which they were sent, so `most` pending requests have different places.
    const sent = post(path, body, `${sender}.${count % most}`).then((response) => ({ response }), (error) => ({ error }));
    pending.push(sent.then((outcome) => {
      clearTimeout(timer);
      return { body, ...outcome };
    }));
  }

  async function run() {
    running = true;
    beginBusy();
    while (pending.length) {
      const { body, response, error } = await pending[0];
      pending.shift();
      if (isTemporary(error)) {
        report(error);
        if (!pending.length) { // otherwise a newer request is on its way
          retrying = true;
          await new Promise((resolve) => { setTimeout(resolve, RETRY_DELAY); });
          retrying = false;
          waiting ??= body;
        }
        sendNext();
      } else {
        sendNext();
        if (error) report(error);
        else show(response, body);
      }
    }
    running = false;
    endBusy();
  }

  function report(error) {
    reportError(error, onMissing);
    if (!isSuperseded(error)) markStale(true);
  }

  function show(response, body) {
    try {
      onMissing(null);
      markStale(false);
      onResponse(response, body);
    } catch (error) {
      report(error);
    }
  }

  return (body) => {
    waiting = body;
    sendNext();
    if (!running) run();
  };
}

function isSuperseded(error) {
  return error?.status === 409;
}

function isTemporary(error) {
  return error instanceof ConnectionError || error?.status === 429;
}

export function reportError(error, onMissing = () => {}) {
  if (error instanceof ApiError) {
    if (isSuperseded(error)) return;
    if (error.status === 503) {
      onMissing(error.message);
      return;
    }
    rejected = error.path;
    showStatus(error.message);
  } else if (error instanceof ConnectionError) {
    rejected = null;
    showStatus(t("The server does not respond. Is torchcaps lab still running?"));
  } else {
    console.error(error);
    showStatus(t("An error occurred on this page; the browser console shows the details."));
  }
}
