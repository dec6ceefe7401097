// Talking to the server: one session per page, the newest question wins.

import { begin, end } from "./busy.js";
import { say } from "./status.js";

const session = Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");

export class Refusal extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

async function send(path, options = {}) {
  const headers = { "X-Session": session, ...options.headers };
  const response = await fetch(path, { ...options, headers });
  const body = await response.json().catch(() => ({}));
  if (response.ok) return body;
  const detail = typeof body.detail === "string" ? body.detail : `The server answered ${response.status}.`;
  throw new Refusal(response.status, detail);
}

export function get(path) {
  return send(path);
}

export function post(path, body) {
  return send(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
}

const kept = new Map();

// GET once per page: examples and the list of toys do not change.
export function getOnce(path) {
  if (!kept.has(path)) {
    const answer = get(path);
    answer.catch(() => kept.delete(path));
    kept.set(path, answer);
  }
  return kept.get(path);
}

// One request under way at a time; of those asked meanwhile only the newest is sent.
// onAnswer(answer, body); onMissing(sentence or null) tells a view that its weights are not there.
export function newest(path, onAnswer, onMissing = () => {}) {
  let waiting = null;
  let busy = false;

  async function work() {
    busy = true;
    begin();
    while (waiting) {
      const body = waiting;
      waiting = null;
      try {
        const answer = await post(path, body);
        onMissing(null);
        say("");
        onAnswer(answer, body);
      } catch (error) {
        explain(error, onMissing);
      }
    }
    busy = false;
    end();
  }

  return (body) => {
    waiting = body;
    if (!busy) work();
  };
}

export function explain(error, onMissing = () => {}) {
  if (error instanceof Refusal) {
    if (error.status === 409) return;
    if (error.status === 503) onMissing(error.message);
    else say(error.message);
  } else if (error instanceof TypeError && /fetch|network|load/i.test(error.message)) {
    say("The lab does not answer. Is torchcaps lab still running?");
  } else {
    console.error(error);
    say("Something went wrong on this page; the browser console has the details.");
  }
}
