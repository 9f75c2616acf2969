// Puts the parts together: what is heard goes to the board, what is new on the board is drawn.

import { Board, filter } from "./board.js";
import { drawChecks } from "./checks.js";
import { at, draw, h } from "./dom.js";
import { DEEDS, confirm, headers, isSignedIn, signIn, signOut } from "./hand.js";
import { drawHistory, redrawHistory } from "./history.js";
import { drawDrains, drawIncidents } from "./incidents.js";
import { Line } from "./live.js";
import { ClusterMap } from "./map.js";
import { drawFences, drawShards } from "./operator.js";
import { Panel } from "./panel.js";
import { Table } from "./table.js";
import { GLYPHS, MEANINGS, TROUBLED, clock, count, counted, moment, setNow, since, spaced, tick } from "./words.js";

const board = new Board();
const panel = new Panel((path) => fetch(path, { headers: headers(), cache: "no-store" }), nodeActions);
const openNode = (name) => panel.node(name);
const map = new ClusterMap(board, at("map"), openNode);
const table = new Table(board, at("table"), openNode);
const states = new Set(); // chosen by the chips
let asTable = false;
let lost = null; // why, and when we try again
let knownIncidents = null;

// Hearing

const line = new Line({
  board: (said) => heard(said),
  change: (said) => heard(said),
  up: () => { if (lost) { lost = null; tell("The connection is back."); } onLine("live"); banners(); },
  down: (why, wait) => {
    if (!lost) tell("The connection is lost.");
    lost = { why, again: Date.now() + wait };
    onLine("lost");
    banners();
  },
  denied: (status, message) => {
    onLine("lost");
    if (!board.told) verdict("Sign in to look at this cluster", "unknown");
    at("account").hidden = false;
    signIn(message || "This page needs a token.", signedIn);
  },
}, headers);

function heard(said) {
  const { parts, changed } = board.take(said);
  if (said.now) setNow(said.now);
  const has = (...names) => names.some((name) => parts.has(name));
  if (has("names", "zones", "states")) { map.build(); } else if (changed.length) map.update(changed);
  if (has("nodes", "names")) nodes();
  if (has("incidents")) { drawIncidents(board.told.incidents, (name) => panel.incident(name)); announce(board.told.incidents); }
  if (has("drains", "can_act")) drawDrains(board.told.drains, openNode, drainActions);
  if (has("checks")) drawChecks(board.told.checks);
  if (has("shards", "leader", "replica", "leads")) drawShards(board.told);
  if (has("fences")) drawFences(board.told.fences, openNode);
  if (has("history")) drawHistory(board.told.history);
  if (has("can_act", "brake")) tools();
  headline();
  panel.refresh();
}

// Telling

function tell(sentence) {
  const news = at("news");
  while (news.childElementCount > 5) news.firstChild.remove();
  news.append(h("span", null, `${sentence} `));
}

function announce(incidents) {
  const before = knownIncidents;
  knownIncidents = new Map(incidents.map((one) => [one.name, one.open]));
  if (!before) return;
  for (const one of incidents) {
    if (one.open && !before.get(one.name)) tell(`New incident on ${one.node}: ${one.message || one.cause}.`);
    if (!one.open && before.get(one.name)) tell(`The incident on ${one.node} is closed: ${one.outcome || "closed"}.`);
  }
}

function onLine(how) {
  at("line").dataset.line = how;
  at("line-text").textContent = how === "live" ? "Live" : "Offline";
}

function verdict(words, mood) {
  at("verdict").dataset.mood = mood;
  if (at("verdict").textContent !== words) at("verdict").textContent = words;
  document.title = `${mood === "good" || mood === "unknown" ? "" : "● "}${words} | Defib`;
}

function headline() {
  const { told, nodes: all } = board;
  at("version").textContent = told.defib ?? "";
  const counts = Object.fromEntries(board.counts().map((number, index) => [told.states[index], number]));
  const person = told.incidents.filter((one) => one.open && one.phase === "NeedsPerson").length;
  const shut = told.checks.filter((check) => check.gates.some((gate) => !gate.open)).length;
  if (person) verdict(`${counted(person, "incident")} ${person === 1 ? "needs" : "need"} a person`, "bad");
  else if (counts.Unhealthy) verdict(`${counted(counts.Unhealthy, "node")} unhealthy${shut ? ", held back" : ""}`, "bad");
  else if (counts.Remediating) verdict(`${counted(counts.Remediating, "node")} being remediated`, "busy");
  else if (counts.Suspect) verdict(`${counted(counts.Suspect, "node")} suspect`, "warn");
  else if (counts.Recovering) verdict(`${counted(counts.Recovering, "node")} recovering`, "busy");
  else if (told.brake?.on) verdict("Paused", "warn");
  else if (!told.checks.length) verdict("No check: nothing is protected", "warn");
  else verdict(all.length ? `All well: ${counted(all.length, "node")}` : "No nodes seen", all.length ? "good" : "warn");
  banners();
}

function banners() {
  const { told } = board;
  const shown = [];
  if (lost) {
    const seconds = Math.max(0, Math.ceil((lost.again - Date.now()) / 1000));
    shown.push(banner("lost", "Connection lost", `${lost.why}; ${told ? `showing ${clock(told.now)} UTC` : "nothing to show yet"}. ${seconds ? `Trying again in ${seconds} s.` : "Trying …"}`,
      h("button", { class: "tool", type: "button", "data-key": "try now", click: () => line.hurry() }, "Try now")));
  }
  if (told?.brake?.on) {
    shown.push(banner("brake", "The brake is on", [told.brake.reason || "no reason given", told.brake.by ? ` · by ${told.brake.by}` : null,
      told.brake.since ? [" · ", since(told.brake.since)] : null, " · no new remediation begins"]));
  }
  if (told?.sight?.length) shown.push(banner("sight", "Defib doubts its own sight", told.sight.join("; ")));
  document.body.classList.toggle("is-lost", lost !== null);
  draw(at("banners"), shown);
}

const banner = (kind, title, words, ...more) => h("div", { class: "banner", "data-kind": kind }, h("b", null, title), h("span", null, words), more);

// Nodes, as a map or as a table, all or some

function nodes() {
  const counts = board.counts();
  draw(at("states"), board.told.states.map((state, index) => {
    const pressed = states.has(state);
    if (!counts[index] && !pressed && !TROUBLED.has(state) && state !== "Healthy") return null;
    return h("button", { class: "chip", type: "button", "data-state": state, "data-key": `state ${state}`, "aria-pressed": String(pressed), title: MEANINGS[state],
      "data-none": counts[index] ? null : "", click: () => { if (!states.delete(state)) states.add(state); nodes(); } },
    h("i", { "aria-hidden": "true" }, GLYPHS[state]), state, h("b", null, count(counts[index])));
  }));
  sift();
}

function sift() {
  const words = at("search").value;
  const matches = filter(board, words, states);
  const found = asTable ? table.draw(matches) : map.mark(matches);
  at("found").textContent = matches ? `${counted(found, "node")} of ${count(board.nodes.length)} shown${words ? "; Enter goes to the first" : ""}` : "";
}

function show(how) {
  asTable = how === "table";
  at("as-map").setAttribute("aria-pressed", String(!asTable));
  at("as-table").setAttribute("aria-pressed", String(asTable));
  at("map").hidden = asTable;
  at("table").hidden = !asTable;
  if (board.told) sift();
}

// A hand

function tools() {
  const may = board.told.can_act === true;
  at("brake-button").hidden = !may;
  at("account").hidden = !may && !isSignedIn();
  at("brake-button").textContent = board.told.brake?.on ? "Resume" : "Pause";
}

function signedIn(me) {
    at("account").hidden = false;
  at("account").textContent = `Sign out ${me.user ?? ""}`;
  if (at("line").dataset.line !== "live") line.hurry();
  panel.refresh();
}

function done(words) {
  tell(words || "Done.");
  panel.refresh();
}

const button = (title, deed, kind = "tool") => h("button", { class: kind, type: "button", "data-key": title, click: () => confirm(deed, signedIn, done) }, title);

function nodeActions(name, told) {
  if (!board.told?.can_act) return [];
  const waits = (told.checks ?? []).some((one) => (one.gates ?? []).some((gate) => !gate.open && /approv/i.test(`${gate.name} ${gate.message}`)));
  const machine = told.incident && !told.incident.outcome && !told.incident.proof;
  return [
    waits ? button("Approve …", DEEDS.approve(name), "tool primary") : null,
    machine ? button("Confirm that it is down …", DEEDS.confirmDown(name), "tool danger") : null,
  ].filter(Boolean);
}

function drainActions(one) {
  return board.told.can_act && one.phase === "WaitingForApproval" ? h("div", { class: "actions" }, button(`Approve the drain of ${one.node} …`, DEEDS.approveDrain(one.node))) : null;
}

// Keys and buttons

const KEYS = [["/", "find nodes"], ["← ↑ → ↓", "move on the map"], ["Page up, Page down", "next zone"], ["Enter", "open the node"], ["N", "next node in trouble"],
  ["T", "map or table"], ["Esc", "close"], ["?", "this list"]];

function showKeys() {
  const dialog = at("ask");
  dialog.replaceChildren(h("h2", { id: "ask-title" }, "Keys"),
    h("dl", { class: "keys" }, KEYS.map(([key, what]) => [h("dt", null, h("kbd", null, key)), h("dd", null, what)])),
    h("h3", null, "States"),
    h("dl", { class: "keys" }, Object.entries(MEANINGS).map(([state, what]) => [h("dt", null, h("span", { class: "badge", "data-state": state }, h("i", { "aria-hidden": "true" }, GLYPHS[state]), state)), h("dd", null, what)])),
    h("div", { class: "actions" }, h("button", { class: "tool", type: "button", click: () => dialog.close() }, "Close")));
  dialog.showModal();
}

const BY_KEY = {
  "/": () => at("search").focus(), "?": showKeys, n: () => map.nextInTrouble(), t: () => show(asTable ? "map" : "table"),
};

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || at("ask").open) return;
  const typing = event.target.matches("input");
  if (event.key === "Escape") {
    if (typing && at("search").value) { at("search").value = ""; sift(); } else if (panel.isOpen) location.hash = "";
    else if (typing) at("search").blur();
  } else if (!typing && board.told && BY_KEY[event.key]) { event.preventDefault(); BY_KEY[event.key](); }
});

at("search").addEventListener("input", () => { if (board.told) sift(); });
at("search").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !board.told) return;
  if (asTable) at("table").querySelector("button")?.focus();
  else map.first(filter(board, at("search").value, states) ?? (() => true));
});
at("as-map").addEventListener("click", () => show("map"));
at("as-table").addEventListener("click", () => show("table"));
at("keys").addEventListener("click", showKeys);
at("account").addEventListener("click", () => {
  if (!isSignedIn()) { signIn("Sign in to act.", signedIn); return; }
  signOut();
  at("account").textContent = "Sign in";
  line.hurry();
});
at("brake-button").addEventListener("click", () => {
  const { brake } = board.told;
  const why = brake.on ? `Paused${brake.by ? ` by ${brake.by}` : ""}${brake.since ? `, ${moment(brake.since)}` : ""}: ${brake.reason || "no reason given"}.` : "";
  confirm(brake.on ? DEEDS.resume(why) : DEEDS.pause(), signedIn, done);
});

new ResizeObserver(() => { if (board.told?.history) redrawHistory(); }).observe(at("history"));
setInterval(() => { tick(document); if (lost) banners(); }, 1000);
addEventListener("online", () => { if (lost) line.hurry(); });
if (new URLSearchParams(location.search).has("demo")) import("./demo.js").then((show) => show.start());
panel.follow();
line.run();
