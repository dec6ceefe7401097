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

// Nobody answered.
export class Silence extends Error {}

async function send(path, options = {}) {
  const headers = { "X-Session": session, ...options.headers };
  let response;
  let body = {};
  try {
    response = await fetch(path, { ...options, headers });
    body = await response.json();
  } catch {
    if (!response || response.ok) throw new Silence(path); // a refusal may come without a sentence, an answer not
  }
  if (response.ok) {
    say("");
    return body;
  }
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

export const RETRY = 2000; // milliseconds between two tries while nobody answers
const SLOW = 1000; // milliseconds after which what the stage shows no longer passes for the answer

// One request under way at a time; of those asked meanwhile only the newest is sent, again and again if nobody answers.
// onAnswer(answer, body); onMissing(sentence or null) tells a view that its weights are not there.
// The stage is stale while it shows the answer to an older question.
export function newest(path, stage, onAnswer, onMissing = () => {}) {
  let waiting = null;
  let busy = false;

  function stale(yes) {
    stage.classList.toggle("stale", yes);
  }

  async function work() {
    busy = true;
    begin();
    while (waiting) {
      const body = waiting;
      waiting = null;
      const slow = setTimeout(stale, SLOW, true);
      try {
        const answer = await post(path, body);
        onMissing(null);
        stale(false);
        onAnswer(answer, body);
      } catch (error) {
        explain(error, onMissing);
        if (!superseded(error)) stale(true);
        if (worthAnotherTry(error)) {
          await new Promise((done) => { setTimeout(done, RETRY); });
          waiting ??= body;
        }
      }
      clearTimeout(slow);
    }
    busy = false;
    end();
  }

  return (body) => {
    waiting = body;
    if (!busy) work();
  };
}

function superseded(error) {
  return error.status === 409;
}

function worthAnotherTry(error) {
  return error instanceof Silence || error.status === 429;
}

export function explain(error, onMissing = () => {}) {
  if (error instanceof Refusal) {
    if (superseded(error)) return;
    if (error.status === 503) onMissing(error.message);
    else say(error.message);
  } else if (error instanceof Silence) {
    say("The lab does not answer. Is torchcaps lab still running?");
  } else {
    console.error(error);
    say("Something went wrong on this page; the browser console has the details.");
  }
}
