// What cannot wait for the rest of the page: the first question to the operator, and whether it is light or dark.
(() => {
  const stop = new AbortController();
  const answer = fetch("api/live", { signal: stop.signal, cache: "no-store" });
  answer.catch(() => null); // whoever takes it over hears of it, too: see live.js
  window.early = { stop, answer };

  // A choice is kept in this browser; without one, the system decides.
  const KEY = "defib-theme";
  const kept = () => { try { return localStorage.getItem(KEY); } catch { return null; } };
  const show = (choice) => { document.documentElement.dataset.theme = choice ?? ""; };
  show(kept());
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
  addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const tell = () => {
      const other = isDark() ? "light" : "dark";
      button.textContent = isDark() ? "☀" : "☾";
      button.title = `Show it ${other}`;
      button.setAttribute("aria-label", button.title);
    };
    button.addEventListener("click", () => {
      const choice = isDark() ? "light" : "dark";
      try { localStorage.setItem(KEY, choice); } catch { /* then it holds until the page is closed */ }
      show(choice);
      tell();
    });
    dark.addEventListener("change", tell);
    tell();
  });
})();
