// What the panel can do beyond its HTML.

// A menu closes when something else is used, and by Escape.
for (const menu of document.querySelectorAll("details.menu")) {
  document.addEventListener("click", (event) => {
    if (!menu.contains(event.target)) menu.open = false;
  });
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
}

// Who ticks one of some means only these.
for (const picker of document.querySelectorAll("[data-picks]")) {
  picker.addEventListener("change", () => {
    document.getElementById(picker.dataset.picks).checked = true;
  });
}
