// How long recoveries took: every closed incident as a dot, by when it began and how long it lasted.

import { at, draw, h, nothing, svg } from "./dom.js";
import { clock, count, counted, day, length, moment } from "./words.js";

const HEIGHT = 190;
const EDGE = { left: 54, right: 14, top: 12, bottom: 24 };
const STEPS = [1, 10, 60, 600, 3600, 36000];
const TABLE_MAX = 50;

let drawn = [];
export const redrawHistory = () => drawHistory(drawn);

export function drawHistory(history) {
  drawn = history;
  const told = history.filter((one) => one.seconds > 0 && one.opened);
  if (!told.length) {
    at("history-sum").textContent = "";
    draw(at("history"), nothing("No incident has been closed yet."));
    return;
  }
  const sorted = told.map((one) => one.seconds).sort((a, b) => a - b);
  const part = (share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
  at("history-sum").textContent = counted(told.length, "closed incident");
  const figures = [["Half within", part(0.5)], ["9 of 10 within", part(0.9)], ["Longest", sorted.at(-1)]];
  draw(at("history"),
    h("dl", { class: "figures-row" }, figures.map(([name, seconds]) => h("div", null, h("dt", null, name), h("dd", null, length(seconds))))),
    picture(told, sorted, part(0.5)),
    h("p", { class: "legend faint", "aria-hidden": "true" }, h("i", { class: "dot good" }), "recovered", h("i", { class: "dot other" }), "otherwise",
      h("i", { class: "dash" }), "half of them took less"),
    h("details", { "data-key": "history table" }, h("summary", null, "As a table"), table(told)));
}

function picture(told, sorted, median) {
  const wide = Math.max(320, at("history").clientWidth || 720);
  const times = told.map((one) => Date.parse(one.opened));
  const [from, to] = [Math.min(...times), Math.max(...times)];
  const low = Math.min(STEPS.findLast((step) => step <= sorted[0]) ?? 0.5, sorted[0]);
  const high = STEPS.find((step) => step >= sorted.at(-1)) ?? sorted.at(-1);
  const x = (time) => EDGE.left + ((wide - EDGE.left - EDGE.right) * (time - from)) / Math.max(1, to - from);
  const share = (seconds) => Math.log(seconds / low) / Math.max(0.01, Math.log(high / low));
  const y = (seconds) => HEIGHT - EDGE.bottom - (HEIGHT - EDGE.top - EDGE.bottom) * share(seconds);
  const label = `${counted(told.length, "closed incident")} between ${moment(from)} and ${moment(to)}; half took less than ${length(median)}, the longest ${length(sorted.at(-1))}`;
  const lines = STEPS.filter((step) => step >= low && step <= high).map((step) => [
    svg("line", { class: "grid", x1: EDGE.left, x2: wide - EDGE.right, y1: y(step), y2: y(step) }),
    svg("text", { x: EDGE.left - 8, y: y(step) + 4, "text-anchor": "end" }, stepWord(step))]);
  const spread = to - from;
  const marks = (spread ? [0, 0.5, 1] : [0]).map((place) => svg("text", { x: x(from + spread * place), y: HEIGHT - 6,
    "text-anchor": place === 0 ? "start" : place === 1 ? "end" : "middle" }, spread > 2 * 86400e3 ? day(from + spread * place) : clock(from + spread * place)));
  const dots = told.map((one) => {
    const good = one.outcome === "Recovered";
    const [cx, cy] = [x(Date.parse(one.opened)), y(one.seconds)];
    const title = svg("title", null, `${one.node}: ${length(one.seconds)}, ${one.outcome || "closed"}, ${moment(one.opened)}`);
    return good ? svg("circle", { class: "dot good", cx, cy, r: 4 }, title) : svg("path", { class: "dot other", d: `M${cx} ${cy - 5}l5 9h-10z` }, title);
  });
  return svg("svg", { class: "chart", viewBox: `0 0 ${wide} ${HEIGHT}`, role: "img", "aria-label": label }, lines,
    svg("line", { class: "median", x1: EDGE.left, x2: wide - EDGE.right, y1: y(median), y2: y(median) }), dots, marks);
}

const stepWord = (step) => (step < 60 ? `${step} s` : step < 3600 ? `${step / 60} min` : `${step / 3600} h`);

function table(told) {
  const rows = told.slice(0, TABLE_MAX).map((one) => h("tr", null, h("th", { scope: "row" }, one.node), h("td", null, moment(one.opened)),
    h("td", null, length(one.seconds)), h("td", null, one.outcome)));
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Closed incidents" }, h("table", { class: "rows" },
    h("thead", null, h("tr", null, ["Node", "Opened", "Took", "Outcome"].map((title) => h("th", { scope: "col" }, title)))), h("tbody", null, rows)),
  told.length > TABLE_MAX ? h("p", { class: "faint" }, `and ${count(told.length - TABLE_MAX)} older ones`) : null);
}
