// The keyboard shortcuts of all pages of the panel, the palette that lists the pages, and the help about
// the shortcuts. Without this module, people use the navigation and the search fields.

const palette = document.getElementById("palette");
const help = document.getElementById("shortcuts");
const store = "certvault-single-keys";

// typing reports whether a key must not be used as a shortcut. This is the case if the focus is in a text
// field or a menu, a dialog is open, the key is pressed with Ctrl, Alt or Meta, or another handler used it.
export const typing = (event) =>
  event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]") ||
  event.target.closest("input:not([type=checkbox], [type=radio]), select, textarea, [contenteditable]");

// singleKeys reports whether shortcuts of a single key are on. A person can turn them off (WCAG 2.1.4),
// because software for speech input may type letters by mistake.
export const singleKeys = () => {
  try {
    return localStorage.getItem(store) !== "off";
  } catch {
    return here;
  }
};
let here = true; // the choice on this page, if the browser stores nothing

if (palette) {
  const text = palette.querySelector("input");
  const list = palette.querySelector("[role=listbox]");
  const pages = Array.from(document.querySelectorAll("#nav a"), (a) => {
    const label = a.cloneNode(true);
    label.querySelector(".count")?.remove();
    return { label: label.textContent.trim(), href: a.href };
  });
  const find = document.body.dataset.find;
  let options = [];
  let at = 0;
  const mark = (n) => {
    if (!options.length) {
      text.removeAttribute("aria-activedescendant");
      return;
    }
    at = (n + options.length) % options.length;
    for (const [i, option] of options.entries()) option.setAttribute("aria-selected", String(i === at));
    text.setAttribute("aria-activedescendant", options[at].id);
    options[at].scrollIntoView({ block: "nearest" });
  };
  const show = () => {
    const typed = text.value.trim();
    const wanted = typed.toLocaleLowerCase();
    const matches = pages.filter((page) => page.label.toLocaleLowerCase().includes(wanted));
    if (typed && find) {
      matches.push({ label: palette.dataset.find.replace("{text}", typed), href: `${find}?text=${encodeURIComponent(typed)}` });
    }
    options = matches.map(({ label, href }, i) => {
      const option = document.createElement("div");
      option.id = `palette-${i}`;
      option.setAttribute("role", "option");
      option.dataset.href = href;
      option.textContent = label;
      option.addEventListener("click", () => location.assign(href));
      option.addEventListener("pointermove", () => mark(i));
      return option;
    });
    list.replaceChildren(...(options.length ? options : [palette.dataset.none]));
    mark(0);
  };
  text.addEventListener("input", show);
  text.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      mark(at + step);
    } else if (event.key === "Enter" && options.length) {
      event.preventDefault();
      location.assign(options[at].dataset.href);
    }
  });
  palette.addEventListener("click", (event) => {
    if (event.target === palette) palette.close();
  });
  const open = () => {
    if (palette.open) return;
    text.value = "";
    show();
    palette.showModal();
  };
  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey) {
      event.preventDefault();
      if (palette.open) palette.close();
      else open();
      return;
    }
    if (!singleKeys() || typing(event)) return;
    if (event.key === "?") {
      event.preventDefault();
      help.showModal();
    }
    if (event.key === "/") {
      const field = document.getElementById("q") ?? document.getElementById("quick");
      if (!field) return;
      event.preventDefault();
      field.focus();
      field.select();
    }
  });
  const single = help.querySelector("#single-keys");
  single.checked = singleKeys();
  single.addEventListener("change", () => {
    here = single.checked;
    try {
      localStorage.setItem(store, here ? "on" : "off");
    } catch {
      // The browser does not store the choice, so the choice applies to this page only.
    }
  });
}
