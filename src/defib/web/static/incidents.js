// Incidents, the open ones first, and drains with what blocks them.

import { at, draw, h, nothing } from "./dom.js";
import { count, counted, length, since, spaced } from "./words.js";

const CLOSED_MAX = 10;
const BLOCKED_MAX = 4;

export function drawIncidents(incidents, open) {
  const now = incidents.filter((one) => one.open);
  const past = incidents.filter((one) => !one.open);
  at("incidents-sum").textContent = now.length ? `${count(now.length)} open` : "none open";
  const older = past.slice(CLOSED_MAX);
  draw(at("incidents"),
    now.length ? h("ul", { class: "list" }, now.map((one) => row(one, open))) : nothing("No incident is open."),
    past.length ? h("h3", null, "Closed") : null,
    past.length ? h("ul", { class: "lines" }, past.slice(0, CLOSED_MAX).map((one) => line(one, open))) : null,
    older.length ? h("details", { "data-key": "older" }, h("summary", null, `${counted(older.length, "older one")}`),
      h("ul", { class: "lines" }, older.map((one) => line(one, open)))) : null);
}

// One that is over needs one line.
function line(one, open) {
  const good = one.outcome === "Recovered";
  return h("li", null, h("button", { class: "line-row", type: "button", "data-key": `incident ${one.name}`, title: one.message, click: () => open(one.name) },
    h("i", { class: "lamp", "data-mood": good ? "good" : "plain", "aria-hidden": "true" }, good ? "✓" : "–"),
    h("b", null, one.node), h("span", { class: good ? "unseen" : "faint" }, one.outcome || "closed"),
    h("span", { class: "figures" }, length(one.seconds), one.closed ? [" · ", since(one.closed)] : null)));
}

function row(one, open) {
  return h("li", null, h("button", { class: "row", type: "button", "data-key": `incident ${one.name}`, click: () => open(one.name) },
    h("span", { class: "row-head" }, h("b", null, one.node), h("span", { class: "pill", "data-mood": one.phase === "NeedsPerson" ? "bad" : "busy" }, spaced(one.phase))),
    h("span", { class: "row-text" }, one.message || one.cause),
    h("span", { class: "row-foot faint" }, "open for ", since(one.opened, ""), one.check ? [" · ", one.check] : null)));
}

const STUCK = new Set(["WaitingForApproval", "Held", "Observed"]);

// actions(drain) gives its buttons, none when nobody may act.
export function drawDrains(drains, open, actions) {
  const blocked = drains.filter((one) => STUCK.has(one.phase)).length;
  at("drains-sum").textContent = drains.length ? `${count(drains.length)} under way${blocked ? `, ${count(blocked)} stuck` : ""}` : "none";
  draw(at("drains"), drains.length ? h("ul", { class: "list" }, drains.map((one) => drain(one, open, actions))) : nothing("No node is being drained."));
}

function drain(one, open, actions) {
  const more = one.blocked.length - BLOCKED_MAX;
  const left = typeof one.pods_left === "number" ? `${counted(one.pods_left, "pod")} left` : "";
  return h("li", { class: "drain" },
    h("p", { class: "row-head" },
      h("button", { class: "link strong", type: "button", "data-key": `drain ${one.node}`, click: () => open(one.node) }, one.node),
      h("span", { class: "pill", "data-mood": STUCK.has(one.phase) ? "warn" : "busy" }, spaced(one.phase))),
    h("p", { class: "faint" }, left, one.by ? ` · by ${one.by}` : null, one.since ? [" · ", since(one.since, "")] : null),
    one.message && one.message !== left ? h("p", { class: "row-text" }, one.message) : null,
    one.blocked.length ? h("ul", { class: "blocked", "aria-label": `Pods that are still on ${one.node}` }, one.blocked.slice(0, BLOCKED_MAX).map((pod) =>
      h("li", null, h("code", null, pod.pod), h("span", null, pod.why), pod.next ? h("span", { class: "next" }, `→ ${pod.next}`) : null))) : null,
    more > 0 ? h("p", { class: "faint" }, `and ${counted(more, "more pod")}`) : null,
    actions(one));
}
