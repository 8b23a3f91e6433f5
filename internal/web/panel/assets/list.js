// The lists of certificates and of applications: the selection of rows, and the keys j, k and x. Rows
// can be selected without this module, because the style sheet shows the actions.
import { singleKeys, typing } from "./palette.js";

for (const form of document.querySelectorAll("form.many")) {
  const rows = Array.from(form.querySelectorAll("[name=selected]"));
  const all = form.querySelector("[data-every]");
  const count = form.querySelector("[data-count]");
  let last = null;
  const show = () => {
    const n = rows.filter((row) => row.checked).length;
    if (!all) return; // the rows of the list cannot be selected
    all.checked = n === rows.length;
    all.indeterminate = n > 0 && n < rows.length;
    count.textContent = form.dataset.selected.replace("{n}", n.toLocaleString(document.documentElement.lang));
  };
  if (all) all.hidden = false;
  form.addEventListener("change", (event) => {
    if (event.target === all) for (const row of rows) row.checked = all.checked;
    show();
  });
  // A click with the shift key also selects or deselects the rows between this row and the row of the
  // last click.
  form.addEventListener("click", (event) => {
    const at = rows.indexOf(event.target);
    if (at < 0) return;
    if (event.shiftKey && last !== null) {
      for (const row of rows.slice(Math.min(at, last), Math.max(at, last) + 1)) row.checked = rows[at].checked;
      show();
    }
    last = at;
  });
  form.addEventListener("reset", () => setTimeout(show));
  // A browser that returns to the page restores the selection.
  window.addEventListener("pageshow", show);
  show();

  const links = Array.from(form.querySelectorAll("tbody .c-name a"));
  document.addEventListener("keydown", (event) => {
    if (!singleKeys() || typing(event)) return;
    const at = links.findIndex((link) => link.closest("tr").contains(document.activeElement));
    const step = { j: 1, k: -1 }[event.key];
    if (step) {
      event.preventDefault();
      links[at < 0 ? 0 : Math.min(links.length - 1, Math.max(0, at + step))]?.focus();
    } else if (event.key === "x" && at >= 0) {
      event.preventDefault();
      rows[at]?.click();
    }
  });
}

// Empty fields are not sent, so that the URL of a filtered list stays short.
for (const form of document.querySelectorAll("form.finder")) {
  form.addEventListener("submit", () => {
    for (const field of form.elements) field.disabled = field.name !== "" && field.value === "";
    setTimeout(() => { for (const field of form.elements) field.disabled = false; });
  });
}
