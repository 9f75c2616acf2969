// What a person may do here. The token is kept in memory only, and the API server decides what it is good for.

import { at, h } from "./dom.js";
import { said } from "./live.js";

let token = "";
export const headers = () => (token ? { Authorization: `Bearer ${token}` } : {});
export const isSignedIn = () => token !== "";

// A dialog with a title, sentences, fields and two buttons. `act` answers with why it could not be done, or nothing.
function ask({ title, sentences, fields, verb, danger, act }) {
  const dialog = at("ask");
  const trouble = h("p", { class: "trouble", role: "alert" });
  const go = h("button", { class: danger ? "tool danger" : "tool primary", type: "submit" }, verb);
  const inputs = Object.fromEntries(fields.map((field) => [field.name, h("input", {
    id: `ask-${field.name}`, type: field.secret ? "password" : "text", autocomplete: "off", spellcheck: "false", required: true, placeholder: field.hint ?? "" })]));
  const form = h("form", { novalidate: true },
    h("h2", { id: "ask-title" }, title),
    sentences.map((one) => h("p", null, one)),
    fields.map((field) => h("label", { for: `ask-${field.name}` }, field.label, inputs[field.name])),
    trouble,
    h("div", { class: "actions" }, h("button", { class: "tool", type: "button", click: () => dialog.close() }, "Cancel"), go));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const values = Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, input.value.trim()]));
    const empty = fields.find((field) => !values[field.name]);
    if (empty) { trouble.textContent = `${empty.label} is needed.`; inputs[empty.name].focus(); return; }
    go.disabled = true;
    trouble.textContent = await act(values) ?? "";
    go.disabled = false;
    if (!trouble.textContent) dialog.close();
  });
  dialog.replaceChildren(form);
  dialog.onclose = () => { if (!dialog.open) dialog.replaceChildren(); }; // a token that was typed does not stay in the page
  if (!dialog.open) dialog.showModal();
  (Object.values(inputs)[0] ?? form.querySelector("button")).focus();
}

const TOKEN = { name: "token", label: "Token", secret: true, hint: "kubectl create token …" };

export function signIn(why, done) {
  ask({
    title: "Sign in",
    sentences: [why, "A token of the cluster, for example from kubectl create token. It stays in the memory of this page and is gone when you close it."],
    fields: [TOKEN], verb: "Sign in",
    act: async (values) => {
      const answer = await whoami(values.token);
      if (typeof answer === "string") return answer;
      token = values.token;
      done(answer);
      return undefined;
    },
  });
}

export function signOut() { token = ""; }

async function whoami(candidate) {
  try {
    const answer = await fetch("api/me", { headers: { Authorization: `Bearer ${candidate}` }, cache: "no-store" });
    return answer.ok ? await answer.json() : await said(answer);
  } catch {
    return "The operator cannot be reached.";
  }
}

// Nothing is done before somebody has said so twice: by the button that opens this, and in it.
export function confirm(deed, signedIn, done) {
  const fields = [...(deed.fields ?? []), ...(token ? [] : [TOKEN])];
  ask({
    ...deed, fields,
    act: async (values) => {
      if (deed.repeat && values.repeat !== deed.repeat) return `Type ${deed.repeat} to confirm.`;
      if (!token) {
        const me = await whoami(values.token);
        if (typeof me === "string") return me;
        token = values.token;
        signedIn(me);
      }
      return send(deed, values, done);
    },
  });
}

async function send(deed, values, done) {
  try {
    const answer = await fetch(`api/${deed.path}`, {
      method: "POST", headers: { ...headers(), "Content-Type": "application/json" }, body: JSON.stringify(deed.body(values)), cache: "no-store" });
    const words = await said(answer);
    if (!answer.ok) return words;
    done(words);
    return undefined;
  } catch {
    return "The operator cannot be reached; nothing is known to have been done.";
  }
}

export const DEEDS = {
  pause: () => ({
    path: "pause", title: "Pause Defib", verb: "Pause", danger: true,
    sentences: ["No new remediation begins, in the whole cluster, until somebody resumes. What is under way goes on to a safe point."],
    fields: [{ name: "reason", label: "Reason", hint: "why, for whoever finds it paused" }], body: (values) => ({ reason: values.reason }) }),
  resume: (why) => ({
    path: "resume", title: "Resume Defib", verb: "Resume", sentences: [why, "Nodes that are unhealthy now may be remediated at once."], body: () => ({}) }),
  approve: (node) => ({
    path: "approve", title: `Approve ${node}`, verb: "Approve", sentences: [`${node} may be remediated as its check says, once.`], body: () => ({ node }) }),
  approveDrain: (node) => ({
    path: "approve", title: `Approve the drain of ${node}`, verb: "Approve", body: () => ({ node, drain: true }),
    sentences: ["Pods that do not leave by themselves may be made to leave, the mildest way first, for one hour."] }),
  confirmDown: (node) => ({
    path: "confirm-down", title: `Confirm that ${node} is down`, verb: "It is off", danger: true, repeat: node,
    sentences: ["Only if you have seen that the machine has no power. Its workloads start elsewhere at once; if it still runs, they run twice and volumes may be damaged."],
    fields: [{ name: "repeat", label: `Type ${node} to confirm`, hint: node }], body: () => ({ node }) }),
};
