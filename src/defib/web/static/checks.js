// Checks: how many of their nodes are well, and the gates that hold a remediation back, as gauges.

import { at, draw, h, nothing, wide } from "./dom.js";
import { count, counted, spaced } from "./words.js";

export function drawChecks(checks) {
  const shut = checks.filter((check) => check.gates.some((gate) => !gate.open)).length;
  at("checks-sum").textContent = checks.length ? `${counted(checks.length, "check")}, ${shut ? `${count(shut)} held back` : "all gates open"}` : "";
  draw(at("checks"), checks.length ? checks.map(one) : nothing("The cluster has no NodeHealthCheck, so nothing will ever be done. Create one to protect nodes."));
}

function one(check) {
  // Those that say no, and those that have a measure, are worth the room.
  const first = check.gates.filter((gate) => !gate.open || isMeasured(gate));
  const rest = check.gates.filter((gate) => !first.includes(gate));
  return h("article", { class: "check" },
    h("header", null, h("h3", null, check.name), check.mode ? h("span", { class: "pill" }, check.mode) : null,
      h("span", { class: "pill", "data-mood": mood(check) }, spaced(check.phase) || "no phase yet")),
    check.reason ? h("p", { class: "faint" }, check.reason) : null,
    nodesOf(check),
    h("ul", { class: "gates", "aria-label": `Gates of ${check.name}` }, first.map(gauge)),
    rest.length ? h("details", { "data-key": `gates ${check.name}` }, h("summary", null, `${counted(rest.length, "more gate")}, all open`),
      h("ul", { class: "gates" }, rest.map(gauge))) : null);
}

function mood(check) {
  if (check.phase === "Disabled") return "bad";
  if (check.phase === "Paused" || check.gates.some((gate) => !gate.open)) return "warn";
  return check.phase === "Remediating" ? "busy" : "good";
}

function nodesOf(check) {
  const total = Math.max(check.observed, 1);
  const idle = Math.max(0, check.unhealthy - check.remediating);
  const parts = [["Healthy", check.healthy], ["Remediating", check.remediating], ["Unhealthy", idle]];
  const words = `${count(check.healthy)} of ${counted(check.observed, "node")} healthy` +
    (check.unhealthy ? `, ${count(check.unhealthy)} unhealthy` : "") + (check.remediating ? `, ${count(check.remediating)} being remediated` : "");
  return h("div", { class: "share" },
    h("div", { class: "stack", "aria-hidden": "true" }, parts.map(([state, part]) => (part > 0 ? wide(h("i", { "data-state": state }), part / total) : null))),
    h("p", null, words));
}

// A limit of none at all is a switch, not a budget.
const isMeasured = (gate) => typeof gate.share === "number" && gate.limit !== "0";

export function gauge(gate) {
  const label = `${spaced(gate.name)}, ${gate.open ? "open" : "closed"}`;
  const bar = isMeasured(gate)
    ? h("div", { class: "meter", role: "meter", "aria-label": label, "aria-valuemin": 0, "aria-valuemax": 100,
      "aria-valuenow": Math.round(Math.max(0, Math.min(1, gate.share)) * 100), "aria-valuetext": gate.message }, wide(h("i"), gate.share))
    : null;
  const figures = [gate.value, gate.limit].filter(Boolean).join(" / ");
  return h("li", { class: "gate", "data-open": gate.open ? "yes" : "no" },
    h("p", { class: "gate-head" },
      h("i", { class: "lamp", "aria-hidden": "true" }, gate.open ? "✓" : "✕"),
      h("b", null, spaced(gate.name)), gate.open ? h("span", { class: "unseen" }, " open") : h("span", { class: "pill", "data-mood": "bad" }, "closed"),
      h("span", { class: "figures" }, figures)),
    bar, h("p", { class: "faint" }, gate.message));
}
