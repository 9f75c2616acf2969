// The line to the operator: one stream that tells the whole board first and then what changes. It comes back by itself.
//
// Read with fetch and not with EventSource, which cannot show a token.

const SILENCE = 40_000; // a ping comes every 15 s
const FIRST_WAIT = 1000;
const LONGEST_WAIT = 30_000;

export class Line {
  // on: board(said), change(said), up(), down(why, waitMs), denied(status, message)
  constructor(on, headers) {
    this.on = on;
    this.headers = headers;
    this.tries = 0;
    this.wake = null;
  }

  async run() {
    for (;;) {
      this.hurried = false;
      const outcome = await this.#once();
      if (this.hurried) continue;
      if (outcome.denied) {
        this.on.denied(outcome.denied, outcome.why);
        await this.#rest(LONGEST_WAIT * 20);
        continue;
      }
      const wait = outcome.after ?? Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** this.tries) * (0.75 + Math.random() / 2);
      this.tries += 1;
      this.on.down(outcome.why, wait);
      await this.#rest(wait);
    }
  }

  // Somebody does not want to wait, or has signed in or out.
  hurry() {
    this.hurried = true;
    this.tries = 0;
    this.stop?.abort();
    this.wake?.();
  }

  #rest(wait) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, wait);
      this.wake = () => { clearTimeout(timer); resolve(); };
    });
  }

  async #once() {
    const early = window.early; // asked before the page was there
    window.early = null;
    this.stop = early?.stop ?? new AbortController();
    let watchdog = setTimeout(() => this.stop.abort(), SILENCE);
    try {
      const answer = await (early?.answer ?? fetch("api/live", { headers: this.headers(), signal: this.stop.signal, cache: "no-store" }));
      if (answer.status === 401 || answer.status === 403) return { denied: answer.status, why: await said(answer) };
      if (!answer.ok) {
        const after = Number(answer.headers.get("Retry-After"));
        return { why: await said(answer), after: after > 0 ? after * 1000 : undefined };
      }
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      const events = new Events((kind, body) => this.#heard(kind, body));
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return { why: "the operator ended the connection" };
        clearTimeout(watchdog);
        watchdog = setTimeout(() => this.stop.abort(), SILENCE);
        events.feed(value);
      }
    } catch (error) {
      return { why: error.name === "AbortError" ? "the operator was silent for too long" : "the operator cannot be reached" };
    } finally {
      clearTimeout(watchdog);
    }
  }

  #heard(kind, body) {
    if (kind !== "board" && kind !== "change") return;
    this.tries = 0;
    this.on[kind](JSON.parse(body));
    this.on.up();
  }
}

// Server-sent events out of pieces of text, however they were cut.
class Events {
  constructor(heard) {
    this.heard = heard;
    this.pieces = [];
    this.kind = "message";
    this.lines = [];
  }

  feed(text) {
    const parts = text.split("\n");
    while (parts.length > 1) {
      this.pieces.push(parts.shift());
      this.#line(this.pieces.join("").replace(/\r$/, ""));
      this.pieces = [];
    }
    this.pieces.push(parts[0]);
  }

  #line(line) {
    if (line === "") {
      if (this.lines.length) this.heard(this.kind, this.lines.join("\n"));
      this.kind = "message";
      this.lines = [];
    } else if (line.startsWith("event:")) this.kind = line.slice(6).trim();
    else if (line.startsWith("data:")) this.lines.push(line.slice(line[5] === " " ? 6 : 5));
  }
}

// What an answer that is no success says, in one line.
export async function said(answer) {
  const text = (await answer.text()).trim();
  try {
    const body = JSON.parse(text);
    return String(body.message ?? body.error ?? text);
  } catch {
    return text.split("\n")[0] || `the operator answered with ${answer.status}`;
  }
}
