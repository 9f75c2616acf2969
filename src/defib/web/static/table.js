// The same nodes as a table, for whoever reads better than looks. Those in trouble come first; it grows on demand.

import { h } from "./dom.js";
import { TROUBLED, badge, count } from "./words.js";

const STEP = 200;

export class Table {
  constructor(board, place, open) {
    this.board = board;
    this.place = place;
    this.open = open;
    this.most = STEP;
  }

  draw(matches) {
    const { board } = this;
    const rank = (node) => (TROUBLED.has(board.state(node)) ? 0 : 1);
    const found = board.nodes.filter((node) => matches === null || matches(node)).sort((a, b) => rank(a) - rank(b));
    const rows = found.slice(0, this.most).map((node) =>
      h("tr", null,
        h("th", { scope: "row" }, h("button", { class: "link", type: "button", click: () => this.open(node[0]) }, node[0])),
        h("td", null, badge(board.state(node))),
        h("td", null, board.zone(node) || "–"),
        h("td", { class: "faint" }, board.marks(node).join(", ")),
      ));
    const head = h("thead", null, h("tr", null, ["Node", "State", "Zone", "Marks"].map((title) => h("th", { scope: "col" }, title))));
    const more = found.length > this.most
      ? h("button", { class: "tool", type: "button", click: () => { this.most += STEP; this.draw(matches); } },
        `Show ${count(Math.min(STEP, found.length - this.most))} more of ${count(found.length)}`)
      : null;
    this.place.replaceChildren(h("table", { class: "rows" }, head, h("tbody", null, rows)), ...(more ? [more] : []));
    return found.length;
  }
}
