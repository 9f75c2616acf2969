// What the page knows: the last whole board and every change since. Nobody else keeps a copy.

const FLAG_WORDS = {
  control_plane: "control plane", cordoned: "cordoned", draining: "draining", fence_not_ready: "fence not ready", incident: "incident open",
};

export class Board {
  constructor() {
    this.told = null; // as the server said it
    this.nodes = []; // [name, zone, state, flags] in the server's order
    this.byName = new Map();
  }

  // Which parts are new: their names, and of single nodes their places. Null nodes means all of them.
  take(said) {
    const parts = new Set(Object.keys(said));
    let changed = [];
    if (this.told === null || !("nodes" in said)) this.told = { ...this.told, ...said };
    else this.told = { ...this.told, ...said, nodes: null };
    if ("nodes" in said) changed = this.#takeNodes(said.nodes, parts);
    this.told.nodes = null; // they are in this.nodes
    return { parts, changed };
  }

  #takeNodes(list, parts) {
    if (list.length && typeof list[0][0] === "number") {
      for (const [place, ...rest] of list) this.nodes[place] = [this.nodes[place][0], ...rest];
      return list.map((one) => one[0]);
    }
    parts.add("names");
    this.nodes = list;
    this.byName = new Map(list.map((one, place) => [one[0], place]));
    return null;
  }

  get flags() { return this.told?.flags ?? {}; }
  state(node) { return this.told.states[node[2]] ?? "Unseen"; }
  zone(node) { return this.told.zones[node[1]] ?? ""; }
  has(node, flag) { return (node[3] & (this.flags[flag] ?? 0)) !== 0; }
  marks(node) { return node[3] === 0 ? [] : Object.keys(FLAG_WORDS).filter((flag) => this.has(node, flag)).map((flag) => FLAG_WORDS[flag]); }

  // One sentence that says what the cell shows.
  sentence(node) {
    return [node[0], this.state(node), zoneName(this.zone(node)), ...this.marks(node)].join(", ");
  }

  counts() {
    const counts = this.told.states.map(() => 0);
    for (const node of this.nodes) counts[node[2]] += 1;
    return counts;
  }
}

export const zoneName = (zone) => (zone ? `zone ${zone}` : "no zone");

// A filter: words that must all occur in a node's sentence, and states that may be shown (none chosen: all).
export function filter(board, words, states) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  if (!wanted.length && !states.size) return null;
  return (node) => {
    if (states.size && !states.has(board.state(node))) return false;
    if (!wanted.length) return true;
    const text = board.sentence(node).toLowerCase();
    return wanted.every((word) => text.includes(word));
  };
}
