// The page of an application: its keyboard shortcuts, and the texts that the offer suggests for a hold. The
// forms and links of the page also work without this module.
import { singleKeys, typing } from "./palette.js";

const open = (id, field) => {
  const step = document.getElementById(id);
  if (!step) return;
  step.open = true;
  document.getElementById(field).focus();
};
const actions = {
  a: () => document.getElementById("issue")?.focus(),
  h: () => open("hold-step", "text"),
  r: () => open("reject-step", "reason"),
  n: () => document.getElementById("next")?.click(),
};
document.addEventListener("keydown", (event) => {
  // Ctrl+Enter and Cmd+Enter submit the form of the focused control.
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.form) {
    event.preventDefault();
    event.target.form.requestSubmit();
    return;
  }
  if (!singleKeys() || typing(event) || !Object.hasOwn(actions, event.key)) return;
  event.preventDefault();
  actions[event.key]();
});

// A second click must not send a decision again.
for (const form of document.querySelectorAll(".deciding form")) {
  form.addEventListener("submit", (event) => {
    if (form.dataset.sent) event.preventDefault();
    else if (!event.submitter?.hasAttribute("formaction")) form.dataset.sent = "1";
  });
}
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll(".deciding form")) delete form.dataset.sent;
});

// The choice of a kind of hold fills in the suggested text, unless the person has typed a different text.
const text = document.getElementById("text");
const kinds = Array.from(document.querySelectorAll("[name=hold]"));
for (const kind of kinds) {
  kind.addEventListener("change", () => {
    const typed = text.value.trim();
    if (!typed || kinds.some((other) => other.dataset.text.trim() === typed)) text.value = kind.dataset.text;
  });
}
