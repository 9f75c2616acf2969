// One node or one incident in full, beside the page. What it says is what `defib why` and `defib timeline` say.

import { at, draw, h } from "./dom.js";
import { gauge } from "./checks.js";
import { said } from "./live.js";
import { timeline } from "./timeline.js";
import { badge, counted, length, moment, since, spaced } from "./words.js";

const AGAIN = 1000; // not more often than this, however much happens

export class Panel {
  // ask(path) fetches; actions(node, answer) gives the buttons of a node, empty when nobody may act
  constructor(ask, actions) {
    this.ask = ask;
    this.actions = actions;
    this.what = null;
    this.serial = 0;
    at("panel-close").addEventListener("click", () => { location.hash = ""; });
    addEventListener("hashchange", () => this.follow());
  }

  // The address says what is open, so that it can be sent to a colleague and the back key works.
  follow() {
    const [kind, name] = location.hash.slice(1).split(/\/(.*)/s);
    if ((kind === "node" || kind === "incident") && name) this.#show({ kind, name: decode(name) });
    else if (this.what) this.#hide();
  }

  node(name) { location.hash = `node/${encodeURIComponent(name)}`; }
  incident(name) { location.hash = `incident/${encodeURIComponent(name)}`; }
  get isOpen() { return this.what !== null; }

  // Something happened: look again, soon.
  refresh() {
    if (!this.what || this.timer) return;
    this.timer = setTimeout(() => { this.timer = null; this.#load(); }, AGAIN);
  }

  #show(what) {
    if (!this.what) this.from = document.activeElement;
    this.what = what;
    at("panel").hidden = false;
    document.body.classList.add("with-panel");
    at("panel-kind").textContent = what.kind === "node" ? "Node" : "Incident";
    at("panel-title").textContent = what.name;
    at("panel-body").replaceChildren(h("p", { class: "nothing" }, "Asking …"));
    at("panel-title").focus({ preventScroll: true });
    this.#load();
  }

  #hide() {
    this.what = null;
    this.serial += 1;
    at("panel").hidden = true;
    document.body.classList.remove("with-panel");
    if (this.from?.isConnected) this.from.focus({ preventScroll: true });
  }

  async #load() {
    const { what } = this;
    if (!what) return;
    const serial = ++this.serial;
    const parts = await this.#parts(what);
    if (serial === this.serial) draw(at("panel-body"), parts);
  }

  async #parts({ kind, name }) {
    try {
      const answer = await this.ask(`api/${kind}/${encodeURIComponent(name)}`);
      if (!answer.ok) return h("p", { class: "nothing" }, await said(answer));
      const told = await answer.json();
      return kind === "node" ? this.#node(name, told) : this.#incident(told);
    } catch {
      return h("p", { class: "nothing" }, "The operator cannot be reached; this is looked up as soon as it is back.");
    }
  }

  #node(name, told) {
    const buttons = this.actions(name, told);
    return [
      facts([
        ["Ready", told.ready && [`${told.ready.status}${told.ready.reason ? `, ${told.ready.reason}` : ""}`, " for ", since(told.ready.since, "")]],
        ["Heartbeat", told.heartbeat && since(told.heartbeat)],
        ["Cordoned", told.cordoned ? "yes" : "no"],
        ["Exists", told.exists === false ? "the Node object is gone" : null],
        ["Lock", told.lock && `held by ${told.lock.holder}${told.lock.until ? ` until ${moment(told.lock.until)}` : ""}`],
      ]),
      buttons.length ? h("div", { class: "actions" }, buttons) : null,
      (told.checks ?? []).map((one) => this.#check(one)),
      told.incident ? this.#cycle(name, told.incident) : null,
      notes("Pods of this node", (told.failover ?? []).map((one) => one.message ?? sentence(one))),
      notes("Why its pods are not moved", told.noFailover),
      notes("Remediations that no check made", (told.foreign ?? []).map(remediation)),
      notes("Not known", told.unknown),
      told.basis ? h("p", { class: "foot faint" }, told.basis) : null,
    ];
  }

  #check(one) {
    const shut = (one.gates ?? []).filter((gate) => !gate.open);
    const open = (one.gates ?? []).filter((gate) => gate.open);
    return h("section", { class: "verdict-of" },
      h("header", null, h("h3", null, one.check || "All checks"), one.mode ? h("span", { class: "pill" }, one.mode) : null, badge(one.state)),
      h("p", { class: "saying" }, one.message),
      h("p", { class: "faint" }, spaced(one.reason), one.since ? [" · since ", since(one.since, "")] : null),
      one.next?.message ? h("p", { class: "ahead" }, h("b", null, "Next "), one.next.message, one.next.at ? ` (${moment(one.next.at)})` : null) : null,
      shut.length ? h("ul", { class: "gates" }, shut.map(gauge)) : null,
      open.length ? h("details", { "data-key": `open ${one.check}` }, h("summary", null, counted(open.length, "open gate")), h("ul", { class: "gates" }, open.map(gauge))) : null,
      notes("Remediations", (one.remediations ?? []).map(remediation)),
      one.status?.ofNode ? h("p", { class: "faint" }, `The status says: ${one.status.ofNode}`) : null);
  }

  #cycle(name, incident) {
    return h("section", { class: "verdict-of" },
      h("header", null, h("h3", null, "Machine"), h("span", { class: "pill", "data-mood": incident.outcome ? "good" : "busy" }, spaced(incident.outcome || incident.phase))),
      incident.message ? h("p", { class: "saying" }, incident.message) : null,
      h("p", { class: "faint" }, incident.cause, incident.attempt > 1 ? ` · attempt ${incident.attempt}` : null, incident.proof ? ` · proof of ${incident.proof}` : null),
      safeTime(incident.safeTime),
      timeline(incident.timeline ?? [], incident.outcome ? incident.since : null));
  }

  #incident(whole) {
    const told = { ...whole, ...whole.incident };
    return [
      facts([
        ["Node", told.node && h("button", { class: "link", type: "button", "data-key": "to node", click: () => this.node(told.node) }, told.node)],
        ["State", spaced(told.outcome || told.phase)],
        ["Cause", told.cause], ["Check", told.check], ["Mode", told.mode], ["Approved by", told.approvedBy],
        ["Opened", told.opened && moment(told.opened)], ["Closed", told.closed && moment(told.closed)],
        ["Unhealthy since", told.unhealthySince && moment(told.unhealthySince)], ["Took", told.closed && length(told.seconds)], ["Written by", told.by], ["Proof", told.proof],
      ]),
      told.message ? h("p", { class: "saying" }, told.message) : null,
      safeTime(told.safeTime),
      notes("Evidence", told.evidence),
      h("h3", null, "Timeline"),
      timeline(told.timeline ?? [], told.closed),
      told.gates?.length ? h("details", { "data-key": "gates then" }, h("summary", null, `${counted(told.gates.length, "gate")} as they were`), h("ul", { class: "gates" }, told.gates.map(gauge))) : null,
    ];
  }
}

// After how long a node is dead that takes itself down: a sum, with its parts.
function safeTime(time) {
  if (!time) return null;
  const parts = time.parts ?? [];
  return h("details", { "data-key": "safe time", open: true },
    h("summary", null, `Dead after ${seconds(time.seconds)}`),
    h("ul", { class: "notes" }, parts.map((part) => h("li", null, h("b", null, `${seconds(part.seconds)} ${part.name}`), part.why ? `: ${part.why}` : null))));
}

const seconds = (count) => `${Math.round(count * 10) / 10} s`;

function decode(name) {
  try { return decodeURIComponent(name); } catch { return name; }
}

const facts = (pairs) => h("dl", { class: "facts" }, pairs.filter(([, value]) => value).map(([name, value]) => [h("dt", null, name), h("dd", null, value)]));

function notes(title, lines) {
  return lines?.length ? [h("h4", null, title), h("ul", { class: "notes" }, lines.map((line) => h("li", null, line)))] : null;
}

const remediation = (one) =>
  [h("code", null, `${one.kind} ${one.namespace ? `${one.namespace}/` : ""}${one.name}`), one.created ? [" ", since(one.created)] : null,
    one.succeeded ? ` · succeeded: ${one.succeeded}` : null, one.deleting ? " · being deleted" : null];

// An answer that has no sentence of its own: its short words, in order.
const sentence = (one) => Object.values(one).filter((value) => typeof value === "string" && value).join(" · ");
