// The bar with the button to save is shown only while the form has unsaved changes.
for (const form of document.querySelectorAll("form[data-save]")) {
  const bar = form.querySelector(".save-bar");
  const isChanged = (control) => {
    if (!control.name) return false;
    if (control.type === "checkbox" || control.type === "radio") return control.checked !== control.defaultChecked;
    if (control.type === "file") return control.files.length > 0;
    if (control.tagName === "SELECT") return Array.from(control.options).some((option) => option.selected !== option.defaultSelected);
    return control.defaultValue !== undefined && control.value !== control.defaultValue;
  };
  const update = () => { bar.hidden = !("changed" in bar.dataset) && !Array.from(form.elements).some(isChanged); };
  for (const part of form.querySelectorAll("[data-script]")) part.hidden = false;
  for (const part of form.querySelectorAll("[data-no-script]")) part.hidden = true;
  form.addEventListener("input", update);
  form.addEventListener("change", update);
  form.addEventListener("reset", () => {
    // The browser resets the values after the event.
    setTimeout(() => {
      for (const control of form.elements) if (control.name) control.dispatchEvent(new Event("input", { bubbles: true }));
      delete bar.dataset.changed;
      update();
      document.getElementById("main").focus();
    });
  });
  // A browser that returns to the page restores the input.
  window.addEventListener("pageshow", update);
  update();
}

// The preview of the public page shows the name, the logo and the color while a person changes them.
for (const preview of document.querySelectorAll("[data-public-preview]")) {
  const form = preview.closest("form");
  const { name, colour, logo, remove_logo: removed } = form.elements;
  const samples = Array.from(preview.querySelectorAll(".public-sample"));
  name.addEventListener("input", () => {
    for (const text of preview.querySelectorAll("[data-sample-name]")) text.textContent = name.value;
  });

  // The server computes the colors, so that the preview and the public page have the same colors. The
  // contrasts are those of the saved color, so they are hidden while another color is entered.
  const contrast = preview.querySelector("details");
  const state = document.getElementById("colour-state");
  let timer;
  let latest = 0;
  const showColour = async () => {
    const number = ++latest;
    const response = await fetch(`${preview.dataset.colours}?colour=${encodeURIComponent(colour.value)}`, { headers: { Accept: "application/json" } });
    const answer = await response.json();
    if (number !== latest) return;
    if (answer.problem) {
      state.textContent = answer.problem;
      return;
    }
    state.textContent = answer.lightened ? state.dataset.lightened : "";
    for (const sample of samples) {
      const theme = sample.classList.contains("sample-night") ? "night" : "day";
      sample.querySelector(".sample-band").classList.toggle("none", !answer.branded);
      for (const rect of sample.querySelectorAll("rect")) rect.setAttribute("fill", answer[theme]);
      sample.querySelector(".sample-button text").setAttribute("fill", answer[`text_${theme}`]);
    }
  };
  const changeColour = () => {
    if (contrast) contrast.hidden = colour.value !== colour.defaultValue;
    clearTimeout(timer);
    timer = setTimeout(() => showColour().catch(() => { state.textContent = ""; }), 150);
  };
  colour.addEventListener("input", changeColour);
  for (const picker of form.querySelectorAll("[data-picks-for=colour]")) {
    picker.addEventListener("input", () => { colour.dispatchEvent(new Event("input", { bubbles: true })); });
  }

  // A chosen file is drawn on a canvas, because the Content-Security-Policy allows no blob: URL.
  const maxHeight = 64;
  const maxWidth = 240;
  const showLogo = async () => {
    const file = logo.files[0];
    const image = file ? await createImageBitmap(file).catch(() => null) : null;
    for (const sample of samples) {
      const place = sample.querySelector(".sample-name");
      place.querySelector("canvas")?.remove();
      const stored = place.querySelector("img");
      if (stored) stored.hidden = Boolean(image) || Boolean(removed?.checked);
      if (!image) continue;
      const scale = Math.min(1, maxHeight / image.height, maxWidth / image.width);
      const canvas = document.createElement("canvas");
      canvas.width = Math.max(1, Math.round(image.width * scale));
      canvas.height = Math.max(1, Math.round(image.height * scale));
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      place.prepend(canvas);
    }
  };
  logo.addEventListener("input", showLogo);
  removed?.addEventListener("input", showLogo);
}
