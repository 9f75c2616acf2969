// The show of `defib demo`, which opens the page with ?demo and serves what is asked for here; `defib run` does not.
//
// GET api/demo answers {"caption": "…", "playing": "2", "scenes": [{"key": "1", "title": "…"}]}; POST api/demo/KEY asks for a scene.

import { at, draw, h } from "./dom.js";

const EVERY = 1000;

export function start() {
  const caption = h("p", { role: "status" });
  const scenes = h("div", { class: "tools", role: "group", "aria-label": "What shall happen" });
  at("banners").before(h("section", { class: "show", "aria-label": "The show" }, caption, scenes));
  const ask = (key) => fetch(`api/demo/${encodeURIComponent(key)}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: "{}" }).catch(() => null);
  const look = async () => {
    try {
      const answer = await fetch("api/demo", { cache: "no-store" });
      if (!answer.ok) return;
      const told = await answer.json();
      if (caption.textContent !== told.caption) caption.textContent = told.caption;
      draw(scenes, told.scenes.map((one) => h("button", { class: "tool", type: "button", "data-key": `scene ${one.key}`,
        "aria-pressed": String(one.key === told.playing), click: () => ask(one.key) }, `${one.key} ${one.title}`)));
    } catch { /* the line to the operator says it already */ }
  };
  look();
  setInterval(look, EVERY);
}
