// The chart of the dashboard shows the values of a bar when a person points to the bar, or selects it with
// the keyboard. Without this module, the bars have tooltips, and a table contains the values.

for (const figure of document.querySelectorAll("[data-chart]")) {
  const svg = figure.querySelector("svg");
  const bars = Array.from(svg.querySelectorAll("g"));
  const readout = figure.querySelector("[data-readout]");
  let at = -1;
  const show = (n) => {
    at = Math.max(0, Math.min(bars.length - 1, n));
    for (const [i, bar] of bars.entries()) bar.classList.toggle("at", i === at);
    readout.textContent = bars[at].querySelector("title").textContent;
  };
  readout.hidden = false;
  svg.tabIndex = 0;
  for (const [i, bar] of bars.entries()) bar.addEventListener("pointerenter", () => show(i));
  svg.addEventListener("focus", () => { if (at < 0 && svg.matches(":focus-visible")) show(bars.length - 1); });
  svg.addEventListener("keydown", (event) => {
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: bars.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    show(to);
  });
}
