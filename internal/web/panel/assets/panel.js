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

// A colour can be picked beside the field of its code, and what is typed there is
// shown by the picker.
for (const picker of document.querySelectorAll("[data-picks-for]")) {
  const field = document.getElementById(picker.dataset.picksFor);
  picker.hidden = false;
  picker.addEventListener("input", () => { field.value = picker.value; });
  field.addEventListener("input", () => {
    const code = field.value.trim().toLowerCase();
    if (/^#[0-9a-f]{6}$/.test(code)) picker.value = code;
  });
}

// Of a list whose rows can be ticked, one tick is for all that are seen, and it says
// how many are ticked. Who ticks one means these, and not all that match.
for (const form of document.querySelectorAll("form.many")) {
  const rows = Array.from(form.querySelectorAll("[name=selected]"));
  const every = form.querySelector("[data-every]");
  const count = form.querySelector("[data-count]");
  const show = () => {
    const n = rows.filter((row) => row.checked).length;
    every.checked = n === rows.length;
    every.indeterminate = n > 0 && n < rows.length;
    count.textContent = n ? ` (${n})` : "";
  };
  every.hidden = false;
  form.addEventListener("change", (event) => {
    if (event.target === every) for (const row of rows) row.checked = every.checked;
    if (event.target.type === "checkbox") form.querySelector("#which-selected").checked = true;
    show();
  });
  // A browser that comes back to the page ticks what was ticked.
  window.addEventListener("pageshow", show);
  show();
}

// A form with files is sent with its progress shown, and can be stopped. What comes
// back is the page itself, as without this module.
for (const form of document.querySelectorAll("form[data-upload]")) {
  const bar = form.querySelector("progress");
  const says = form.querySelector(".says");
  const cancel = form.querySelector("[data-cancel]");
  for (const hint of form.querySelectorAll("[data-drop-hint]")) hint.hidden = false;
  // What is dropped goes to the control of the part that it is dropped on.
  const parts = form.querySelectorAll("[data-part]");
  for (const part of parts.length ? parts : [form]) {
    part.addEventListener("dragover", (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      part.classList.add("over");
    });
    part.addEventListener("dragleave", () => part.classList.remove("over"));
    part.addEventListener("drop", (event) => {
      if (!event.dataTransfer?.files.length) return;
      event.preventDefault();
      part.classList.remove("over");
      part.querySelector("input[type=file]").files = event.dataTransfer.files;
      form.requestSubmit();
    });
  }
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const request = new XMLHttpRequest();
    request.open("POST", event.submitter?.getAttribute("formaction") ?? form.action);
    request.setRequestHeader("Upload-Script", "1");
    bar.hidden = false;
    cancel.hidden = false;
    const stop = (text) => {
      bar.hidden = true;
      cancel.hidden = true;
      says.textContent = text;
      says.classList.add("problem");
    };
    says.classList.remove("problem");
    request.upload.addEventListener("progress", (step) => {
      if (!step.lengthComputable) return;
      bar.value = (100 * step.loaded) / step.total;
      says.textContent = step.loaded < step.total ? `${Math.floor(bar.value)} % sent` : "The vault looks at what was sent …";
    });
    request.addEventListener("load", () => {
      const next = request.getResponseHeader("Location");
      if (request.status < 400 && next) {
        // To the page itself, the browser would only scroll.
        if (new URL(next, location.href).pathname === location.pathname) location.reload();
        else location.assign(next);
        return;
      }
      // What is wrong stands in the page that came back. What was taken all the same is
      // said, and not sent a second time.
      let text = problemOf(request.responseText) || "This did not work. Please try again.";
      for (const name of (request.getResponseHeader("Upload-Taken") ?? "").split(" ").filter(Boolean)) {
        form.elements[name].value = "";
        text += name === "list" ? " The list was read." : " The files were taken.";
      }
      stop(text);
    });
    request.addEventListener("error", () => stop("The connection broke off. Please try again."));
    request.addEventListener("abort", () => stop("Cancelled. Nothing was kept of what was being sent."));
    cancel.onclick = () => request.abort();
    request.send(new FormData(form));
  });
}

// problemOf reads what a page says is wrong, as text: no text becomes markup here.
function problemOf(text) {
  const list = text.match(/<p class="problem"[^>]*>([^<]*)</)?.[1] ?? text.match(/<div class="problems"[^]*?<li>(?:<a[^>]*>)?([^<]*)</)?.[1] ?? "";
  return list.replaceAll("&#34;", '"').replaceAll("&#39;", "'").replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
}

// The frame on the page follows what is chosen, and can be dragged.
for (const area of document.querySelectorAll("[data-placing]")) {
  const svg = area.querySelector("svg");
  const exact = area.querySelector("#place-exact");
  const sheet = svg.viewBox.baseVal;
  const fields = Object.fromEntries(["x", "y", "width", "height"].map((name) => [name, area.querySelector(`[name=${name}]`)]));
  const spot = svg.querySelector(".spot");
  const show = (box) => {
    spot.setAttribute("display", box ? "inline" : "none");
    if (box) for (const name of Object.keys(fields)) spot.setAttribute(name, box[name]);
  };
  const typed = () => ({
    x: (fields.x.value * sheet.width) / 100, y: (fields.y.value * sheet.height) / 100,
    width: (fields.width.value * sheet.width) / 100, height: (fields.height.value * sheet.height) / 100,
  });
  const update = () => {
    const chosen = area.querySelector("[name=placement]:checked");
    if (chosen && chosen === exact) show(typed());
    else if (chosen?.dataset.x) show(chosen.dataset);
    else show(null);
  };
  area.addEventListener("input", update);
  update();
  if (!exact) continue;
  area.querySelector("[data-drag-hint]").hidden = false;
  svg.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    svg.setPointerCapture(event.pointerId);
    const scale = sheet.width / svg.getBoundingClientRect().width;
    const now = { x: +spot.getAttribute("x"), y: +spot.getAttribute("y"), width: +spot.getAttribute("width") || (22 * sheet.width) / 100, height: +spot.getAttribute("height") || (10 * sheet.height) / 100 };
    const move = (to) => {
      const frame = svg.getBoundingClientRect();
      const x = Math.min(sheet.width - now.width, Math.max(0, (to.clientX - frame.left) * scale - now.width / 2));
      const y = Math.min(sheet.height - now.height, Math.max(0, (to.clientY - frame.top) * scale - now.height / 2));
      exact.checked = true;
      fields.x.value = ((100 * x) / sheet.width).toFixed(1);
      fields.y.value = ((100 * y) / sheet.height).toFixed(1);
      fields.width.value = ((100 * now.width) / sheet.width).toFixed(1);
      fields.height.value = ((100 * now.height) / sheet.height).toFixed(1);
      update();
    };
    move(event);
    svg.onpointermove = move;
    svg.onpointerup = () => { svg.onpointermove = null; };
  });
}

// How far something is comes as it goes; where that does not work, the page is asked
// for again now and then: what is between may refuse events, or hold them back.
for (const area of document.querySelectorAll("[data-progress]")) {
  const source = new EventSource(area.dataset.progress);
  let failed = 0;
  const poll = (wait) => {
    source.close();
    setTimeout(() => fetch(location.href, { method: "HEAD" }).then((answer) => (answer.ok ? location.reload() : poll(5000)), () => poll(5000)), wait);
  };
  const silence = setTimeout(poll, 10000, 0);
  source.addEventListener("message", (event) => {
    failed = 0;
    clearTimeout(silence);
    const now = JSON.parse(event.data);
    for (const bar of area.querySelectorAll("progress")) bar.value = now.done;
    for (const [name, value] of Object.entries(now)) {
      for (const at of area.querySelectorAll(`[data-${name}]`)) at.textContent = value;
    }
    if (now.finished) poll(0);
  });
  source.addEventListener("error", () => {
    if (++failed < 4 && source.readyState !== EventSource.CLOSED) return;
    clearTimeout(silence);
    poll(5000);
  });
}

// What the public will read is shown as it is written.
for (const field of document.querySelectorAll("[data-mirror]")) {
  const shown = document.getElementById(field.dataset.mirror);
  field.addEventListener("input", () => { shown.textContent = field.value; });
}
