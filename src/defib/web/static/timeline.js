// What happened in one incident: a bar for each phase, as long as it took, and each entry in words below.

import { h, svg } from "./dom.js";
import { clock, length, now, spaced } from "./words.js";

const ROW = 26;
const NAMES = 150;
const TOOK = 70;
const WIDE = 520;
const KINDS = { evidence: "Evidence", gate: "Gate", decision: "Decision", action: "Action", proof: "Proof", end: "End" };

export function timeline(entries, closed) {
  if (!entries.length) return [h("p", { class: "nothing" }, "Nothing has been written down yet.")];
  return [picture(entries, closed), list(entries)];
}

// Entries that follow each other in the same phase are one bar.
function bars(entries, end) {
  const found = [];
  for (const entry of entries) {
    const name = entry.phase || KINDS[entry.kind] || "";
    const last = found.at(-1);
    const time = Date.parse(entry.at);
    if (last && last.name === name) last.marks.push(time);
    else found.push({ name, from: time, marks: [time] });
  }
  found.forEach((bar, index) => { bar.to = found[index + 1]?.from ?? Math.max(end, bar.marks.at(-1)); });
  return found;
}

function picture(entries, closed) {
  const end = closed ? Date.parse(closed) : now();
  const all = bars(entries, end);
  const from = all[0].from;
  const span = Math.max(1, all.at(-1).to - from);
  const x = (time) => NAMES + ((WIDE - NAMES - TOOK) * (time - from)) / span;
  const rows = all.map((bar, index) => {
    const y = index * ROW;
    const wide = Math.max(4, x(bar.to) - x(bar.from));
    const isLast = index === all.length - 1;
    return svg("g", null,
      svg("rect", { class: "lane", x: NAMES, y: y + 5, width: WIDE - NAMES - TOOK, height: ROW - 10, rx: 4 }),
      svg("text", { x: 0, y: y + 17 }, spaced(bar.name).slice(0, 24)),
      svg("rect", { class: isLast && closed ? "bar end" : isLast ? "bar open" : "bar", x: x(bar.from), y: y + 5, width: wide, height: ROW - 10, rx: 4 }),
      bar.marks.length > 1 ? bar.marks.slice(1).map((time) => svg("circle", { class: "tick", cx: x(time), cy: y + ROW / 2, r: 2.5 })) : null,
      svg("text", { class: "took", x: WIDE, y: y + 17, "text-anchor": "end" }, isLast && closed ? clock(closed) : length((bar.to - bar.from) / 1000)));
  });
  const label = all.map((bar, index) => (index === all.length - 1 && closed ? spaced(bar.name) : `${spaced(bar.name)} ${length((bar.to - bar.from) / 1000)}`)).join(", ");
  return svg("svg", { class: "waterfall", viewBox: `0 0 ${WIDE} ${all.length * ROW}`, role: "img", "aria-label": `Phases in order: ${label}` }, rows);
}

function list(entries) {
  return h("ol", { class: "entries" }, entries.map((entry, index) => {
    const before = entries[index - 1];
    const gap = before ? (Date.parse(entry.at) - Date.parse(before.at)) / 1000 : null;
    return h("li", { "data-kind": entry.kind || "" },
      h("p", { class: "entry-head" }, h("time", { datetime: entry.at }, clock(entry.at)), gap === null ? null : h("span", { class: "faint" }, `+${length(gap)}`),
        h("b", null, spaced(entry.phase || KINDS[entry.kind] || "")), entry.kind && entry.phase ? h("span", { class: "pill" }, KINDS[entry.kind] ?? entry.kind) : null),
      h("p", null, entry.message), entry.by ? h("p", { class: "faint" }, `by ${entry.by}`) : null);
  }));
}
