// How times, numbers and states are said. All times are UTC, as in every message of the operator.

import { h } from "./dom.js";

let skew = 0; // the server's time minus ours, so that ages are right on a machine with a wrong clock

export function setNow(now) { skew = Date.parse(now) - Date.now(); }
export const now = () => Date.now() + skew;

const whole = new Intl.NumberFormat("en");
export const count = (number) => whole.format(number);
export const counted = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

export function clock(moment) {
  const date = new Date(moment);
  return Number.isNaN(date.getTime()) ? String(moment ?? "") : date.toISOString().slice(11, 19);
}

export function day(moment) {
  const date = new Date(moment);
  return Number.isNaN(date.getTime()) ? "" : date.toLocaleDateString("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
}

export const moment = (when) => `${day(when)} ${clock(when)} UTC`;

export function length(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "";
  const s = Math.max(0, seconds);
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 100) return `${Math.round(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min${s < 600 && Math.round(s % 60) ? ` ${Math.round(s % 60)} s` : ""}`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

export function age(since) {
  const seconds = Math.max(0, Math.floor((now() - Date.parse(since)) / 1000));
  return Number.isNaN(seconds) ? "" : seconds < 10 ? `${seconds} s` : length(seconds);
}

// A moment with its age, which goes on by itself: see tick.
export const since = (when, suffix = " ago") =>
  when ? h("time", { datetime: when, title: moment(when), "data-suffix": suffix, class: "age" }, age(when) + suffix) : null;

export function tick(root) {
  for (const one of root.querySelectorAll("time.age")) {
    const text = age(one.dateTime) + one.dataset.suffix;
    if (one.textContent !== text) one.textContent = text;
  }
}

// "SelfDoubt" is a code; "Self doubt" is read more easily.
export const spaced = (code) =>
  String(code ?? "").replace(/([a-z0-9])([A-Z])/g, (_, a, b) => `${a} ${b.toLowerCase()}`);

export const GLYPHS = {
  Healthy: "", Suspect: "?", Unhealthy: "!", Remediating: "↻", Recovering: "↑", Unseen: "–", Unwatched: "·",
};
export const MEANINGS = {
  Healthy: "no check has anything against it",
  Suspect: "shows an unhealthy condition, not yet for long enough",
  Unhealthy: "unhealthy, and nothing is being done: its gates say why",
  Remediating: "something is being done about it",
  Recovering: "healthy again; its remediation is on its way out",
  Unseen: "it cannot be judged at this moment",
  Unwatched: "no check selects it",
};
export const TROUBLED = new Set(["Suspect", "Unhealthy", "Remediating", "Recovering"]);

export const badge = (state) =>
  h("span", { class: "badge", "data-state": state }, h("i", { "aria-hidden": "true" }, GLYPHS[state] ?? ""), state);
