// The cluster as a map: one cell for each node, by zone. One element each, so that a screen reader can name it;
// what changes is changed in place, so that 5,000 of them stay quick.

import { at, h } from "./dom.js";
import { zoneName } from "./board.js";
import { GLYPHS, MEANINGS, TROUBLED, count, counted } from "./words.js";

const TILES_MAX = 60; // up to so many nodes, a cell has room for a name
const HEIGHT = 560;
const NARROWEST_ZONE = 230;
const PITCH = { least: 9, most: 30, letters: 18 };

export class ClusterMap {
  constructor(board, place, open) {
    this.board = board;
    this.place = place;
    this.open = open;
    this.cells = []; // by place in board.nodes
    this.order = []; // places as they are shown, zone after zone
    this.active = -1; // index into order
    place.addEventListener("keydown", (event) => this.#key(event));
    place.addEventListener("focus", () => { if (this.active < 0 && this.order.length) this.go(0); });
    place.addEventListener("click", (event) => {
      const cell = event.target.closest(".cell");
      if (!cell) return;
      this.go(this.order.indexOf(Number(cell.dataset.at)));
      this.open(this.board.nodes[cell.dataset.at][0]);
    });
    place.addEventListener("pointerover", (event) => this.#hover(event.target.closest(".cell")));
    place.addEventListener("pointerleave", () => this.#hover(null));
    new ResizeObserver(() => this.#size()).observe(place);
  }

  build() {
    const { nodes, told } = this.board;
    const kept = this.active >= 0 ? this.name(this.active) : null;
    const zones = told.zones.map(() => []);
    nodes.forEach((node, index) => zones[node[1]]?.push(index));
    this.tiles = nodes.length <= TILES_MAX;
    this.place.dataset.look = this.tiles ? "tiles" : "cells";
    this.cells = new Array(nodes.length);
    this.zones = [];
    for (const [zone, members] of zones.entries()) if (members.length) this.zones.push(this.#zone(told.zones[zone], members));
    this.order = this.zones.flatMap((zone) => zone.members);
    this.shown = new Map(this.order.map((index, position) => [index, position]));
    this.#size(); // before they are there, so that they are laid out once
    this.sum();
    this.place.replaceChildren(...this.zones.map((zone) => zone.element));
    this.filtered = false;
    this.active = -1;
    this.place.removeAttribute("aria-activedescendant");
    if (kept !== null && this.board.byName.has(kept)) this.go(this.shown.get(this.board.byName.get(kept)), false);
  }

  // Only these nodes are not as they were. A node in another zone needs a new map.
  update(changed) {
    if (changed.some((index) => Number(this.cells[index].dataset.zone) !== this.board.nodes[index][1])) return this.build();
    for (const index of changed) {
      this.#paint(this.cells[index], this.board.nodes[index]);
      this.#flash(this.cells[index]);
    }
    this.sum();
  }

  mark(matches) {
    if (matches === null && !this.filtered) return this.cells.length;
    this.filtered = matches !== null;
    let found = 0;
    this.cells.forEach((cell, index) => {
      const is = matches === null || matches(this.board.nodes[index]);
      found += is;
      cell.classList.toggle("dim", !is);
    });
    return found;
  }

  first(matches) {
    const position = this.order.findIndex((index) => matches(this.board.nodes[index]));
    if (position >= 0) { this.place.focus(); this.go(position); }
    return position >= 0;
  }

  // To the next one in trouble after the one we are at, round and round.
  nextInTrouble() {
    const { length } = this.order;
    for (let step = 1; step <= length; step += 1) {
      const position = (this.active + step + length) % length;
      if (TROUBLED.has(this.board.state(this.board.nodes[this.order[position]]))) {
        this.place.focus();
        return this.go(position);
      }
    }
    return undefined;
  }

  go(position, scroll = true) {
    if (position < 0 || position >= this.order.length) return;
    this.cells[this.order[this.active]]?.removeAttribute("aria-selected");
    this.active = position;
    const cell = this.cells[this.order[position]];
    cell.setAttribute("aria-selected", "true");
    this.place.setAttribute("aria-activedescendant", cell.id);
    if (scroll) cell.scrollIntoView({ block: "nearest" });
    if (scroll && document.activeElement === this.place) this.#hover(cell);
  }

  name(position) { return this.board.nodes[this.order[position]]?.[0] ?? null; }

  sum() {
    for (const zone of this.zones) {
      const bad = zone.members.filter((index) => TROUBLED.has(this.board.state(this.board.nodes[index]))).length;
      zone.element.setAttribute("aria-label", `${zoneName(zone.name)}: ${counted(zone.members.length, "node")}, ${bad} in trouble`);
      zone.bad.textContent = bad ? `${count(bad)} in trouble` : "";
    }
  }

  #zone(name, members) {
    const cells = h("div", { class: "cells", role: "presentation" });
    for (const index of members) cells.append(this.#cell(index));
    const bad = h("span", { class: "zone-bad" });
    const head = h("p", { class: "zone-head", "aria-hidden": "true" }, h("b", null, name || "no zone"), h("span", { class: "faint" }, count(members.length)), bad);
    return { name, members, bad, cells, element: h("div", { class: "zone", role: "group" }, head, cells) };
  }

  #cell(index) {
    const node = this.board.nodes[index];
    const cell = document.createElement("span");
    cell.id = `n${index}`;
    cell.setAttribute("role", "option");
    cell.setAttribute("data-at", index);
    if (this.tiles) cell.append(h("i", { "aria-hidden": "true" }), h("b", null, node[0]), h("small", null));
    this.#paint(cell, node);
    this.cells[index] = cell;
    return cell;
  }

  #paint(cell, node) {
    const state = this.board.state(node);
    const dim = cell.classList.contains("dim") ? " dim" : "";
    const cordoned = this.board.has(node, "cordoned") || this.board.has(node, "draining") ? " cordoned" : "";
    cell.className = `cell${dim}${cordoned}${this.board.has(node, "control_plane") ? " chief" : ""}`;
    cell.setAttribute("data-state", state);
    cell.setAttribute("data-zone", node[1]);
    cell.setAttribute("aria-label", this.board.sentence(node));
    if (!this.tiles) { if (cell.textContent !== GLYPHS[state]) cell.textContent = GLYPHS[state]; }
    else {
      cell.firstChild.textContent = GLYPHS[state];
      cell.lastChild.textContent = [state, ...this.board.marks(node)].join(" · ");
    }
  }

  #flash(cell) {
    cell.classList.remove("new");
    cell.getBoundingClientRect(); // so that it begins anew
    cell.classList.add("new");
    cell.addEventListener("animationend", () => cell.classList.remove("new"), { once: true });
  }

  // Cells as large as the room allows.
  #size() {
    const width = this.place.clientWidth;
    if (!width || !this.zones?.length) return;
    const columns = Math.min(this.zones.length, Math.max(1, Math.floor(width / NARROWEST_ZONE)));
    this.place.style.gridTemplateColumns = `repeat(${columns}, minmax(0, 1fr))`;
    if (this.tiles) return;
    const each = width / columns - 24;
    const height = Math.max(120, HEIGHT / Math.ceil(this.zones.length / columns) - 40);
    const most = Math.max(...this.zones.map((zone) => zone.members.length));
    const pitch = Math.max(PITCH.least, Math.min(PITCH.most, Math.floor(Math.sqrt((each * height) / most))));
    this.place.dataset.look = pitch >= PITCH.letters ? "letters" : "cells";
    this.place.style.setProperty("--pitch", `${pitch}px`);
  }

  #key(event) {
    const moves = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.#row(), ArrowUp: -this.#row() };
    if (event.key in moves) this.go(Math.max(0, Math.min(this.order.length - 1, this.active + moves[event.key])));
    else if (event.key === "Home") this.go(0);
    else if (event.key === "End") this.go(this.order.length - 1);
    else if (event.key === "PageDown" || event.key === "PageUp") this.#hop(event.key === "PageDown" ? 1 : -1);
    else if ((event.key === "Enter" || event.key === " ") && this.active >= 0) this.open(this.name(this.active));
    else return;
    event.preventDefault();
  }

  // How many cells a row of the zone has in which we are.
  #row() {
    const cell = this.cells[this.order[Math.max(0, this.active)]];
    if (!cell) return 1;
    const { children } = cell.parentElement;
    const top = children[0].offsetTop;
    let low = 1;
    while (low < children.length && children[low].offsetTop === top) low += 1;
    return low;
  }

  #hop(step) {
    const starts = this.zones.map((zone) => this.shown.get(zone.members[0]));
    const here = starts.findLastIndex((start) => start <= this.active);
    this.go(starts[Math.max(0, Math.min(starts.length - 1, here + step))]);
  }

  #hover(cell) {
    const tip = at("tip");
    tip.hidden = !cell || this.tiles;
    if (tip.hidden) return;
    const node = this.board.nodes[cell.dataset.at];
    const state = this.board.state(node);
    tip.replaceChildren(
      h("b", null, node[0]),
      h("span", { class: "badge", "data-state": state }, h("i", null, GLYPHS[state]), state),
      h("small", null, [zoneName(this.board.zone(node)), ...this.board.marks(node)].join(" · ")),
      h("small", null, MEANINGS[state]),
    );
    const box = cell.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(innerWidth - tip.offsetWidth - 8, box.left + box.width / 2 - tip.offsetWidth / 2))}px`;
    const above = box.top - tip.offsetHeight - 8;
    tip.style.top = `${above > 60 ? above : box.bottom + 8}px`;
  }
}
