// The operator itself: which replica does what, and whether fencing would work if it were needed.

import { at, draw, h, nothing, wide } from "./dom.js";
import { count, counted } from "./words.js";

const NOT_READY_MAX = 6;

export function drawShards(told) {
  const shards = told.shards ?? { holders: [] };
  const holders = shards.holders ?? [];
  at("shards-sum").textContent = shards.mode && shards.mode !== "off" ? `election: ${shards.mode}` : "no election";
  const all = holders.reduce((sum, one) => sum + (one.nodes ?? 0), 0) || 1;
  draw(at("shards"),
    told.replica ? h("p", { class: "faint" }, `This page is served by ${told.replica}${told.leads ? ", which leads" : told.leader ? `; ${told.leader} leads` : "; nobody leads"}.`) : null,
    holders.length ? h("ul", { class: "list" }, holders.map((one) => h("li", { class: "holder" },
      h("p", { class: "row-head" }, h("b", null, one.name), one.name === told.leader ? h("span", { class: "pill", "data-mood": "good" }, "leads") : null,
        one.is_me ? h("span", { class: "pill" }, "this one") : null,
        h("span", { class: "figures" }, counted(one.nodes ?? 0, "node"))),
      h("div", { class: "stack thin", "aria-hidden": "true" }, wide(h("i", { "data-state": "Recovering" }), (one.nodes ?? 0) / all))))) : null,
    shards.unowned ? h("p", { class: "pill", "data-mood": "bad" }, `${counted(shards.unowned, "bucket")} without an owner`) : null);
}

// What is wrong with many machines is said once.
function alike(bad) {
  const nodes = new Map();
  for (const one of bad) nodes.set(one.why, [...(nodes.get(one.why) ?? []), one.node]);
  return [...nodes];
}

export function drawFences(fences, open) {
  const bad = fences?.not_ready ?? [];
  const total = (fences?.ready ?? 0) + bad.length + (fences?.unknown ?? 0);
  at("fences-sum").textContent = total ? `${count(fences.ready)} of ${count(total)} ready` : "";
  if (!total) return draw(at("fences"), nothing("No fence is configured."));
  const parts = [["Healthy", fences.ready], ["Unhealthy", bad.length], ["Unwatched", fences.unknown]];
  return draw(at("fences"),
    h("div", { class: "stack", "aria-hidden": "true" }, parts.map(([state, part]) => (part ? wide(h("i", { "data-state": state }), part / total) : null))),
    h("p", { class: "faint" }, `${count(fences.ready)} ready, ${count(bad.length)} not ready, ${count(fences.unknown)} not known yet`),
    bad.length ? h("ul", { class: "blocked" }, alike(bad.slice(0, NOT_READY_MAX)).map(([why, nodes]) => h("li", null, h("span", null, nodes.map((node) => [
      h("button", { class: "link strong", type: "button", "data-key": `fence ${node}`, click: () => open(node) }, node), " "])), h("span", null, why)))) : null,
    bad.length > NOT_READY_MAX ? h("p", { class: "faint" }, `and ${count(bad.length - NOT_READY_MAX)} more`) : null);
}
