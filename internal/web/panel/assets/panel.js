// Functions of the panel that need a script.

// Times are shown in the time zone of the browser. The title has the time in UTC.
const local = new Intl.DateTimeFormat(document.documentElement.lang, { dateStyle: "long", timeStyle: "short" });
for (const time of document.querySelectorAll("time[data-at]")) {
  const at = local.format(new Date(time.dateTime));
  if (time.dataset.at === "exact") time.textContent = at;
  else time.title = `${at} (${time.title})`;
}

// A tick in a list of choices selects the option to which the list belongs.
for (const picker of document.querySelectorAll("[data-picks]")) {
  picker.addEventListener("change", () => {
    document.getElementById(picker.dataset.picks).checked = true;
  });
}

// A colour picker beside the field of a colour code. The picker sets the field, and a code that is
// typed in the field sets the picker.
for (const picker of document.querySelectorAll("[data-picks-for]")) {
  const field = document.getElementById(picker.dataset.picksFor);
  picker.hidden = false;
  picker.addEventListener("input", () => { field.value = picker.value; });
  field.addEventListener("input", () => {
    const code = field.value.trim().toLowerCase();
    if (/^#[0-9a-f]{6}$/.test(code)) picker.value = code;
  });
}

// The upload of a form with files shows its progress and can be cancelled. The response is the
// same page as without this module.
for (const form of document.querySelectorAll("form[data-upload]")) {
  const bar = form.querySelector("progress");
  const status = form.querySelector(".says");
  const cancel = form.querySelector("[data-cancel]");
  for (const hint of form.querySelectorAll("[data-drop-hint]")) hint.hidden = false;
  // Dropped files are assigned to the file control of the part of the form on which they are dropped.
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
      status.textContent = text;
      status.classList.add("problem");
      status.tabIndex = -1;
      status.focus();
    };
    status.classList.remove("problem");
    const controls = Array.from(form.querySelectorAll("input[type=file]"));
    for (const control of controls) control.removeAttribute("aria-invalid");
    request.upload.addEventListener("progress", (step) => {
      if (!step.lengthComputable) return;
      bar.value = (100 * step.loaded) / step.total;
      status.textContent = step.loaded < step.total ? `${Math.floor(bar.value)} % sent` : "The vault checks the files …";
    });
    request.addEventListener("load", () => {
      const next = request.getResponseHeader("Location");
      if (request.status < 400 && next) {
        // If only the fragment differs, assign would scroll and not load the page.
        if (new URL(next, location.href).pathname === location.pathname) location.reload();
        else location.assign(next);
        return;
      }
      // The page in the response contains the problem. Upload-Taken lists the controls whose
      // files the vault has stored in spite of the problem. They must not be sent again.
      let text = problemOf(request.responseText) || "This did not work. Please try again.";
      for (const name of (request.getResponseHeader("Upload-Taken") ?? "").split(" ").filter(Boolean)) {
        form.elements[name].value = "";
        text += name === "list" ? " The list was read." : " The files were added.";
      }
      for (const control of controls) if (control.files.length) control.ariaInvalid = "true";
      stop(text);
    });
    request.addEventListener("error", () => stop("The connection was interrupted. Please try again."));
    request.addEventListener("abort", () => stop("Cancelled. Nothing of this upload was stored."));
    cancel.onclick = () => request.abort();
    request.send(new FormData(form));
  });
}

// problemOf returns the first problem in the source of a page, as text. The text never becomes
// markup.
function problemOf(text) {
  const list = text.match(/<p class="problem"[^>]*>([^<]*)</)?.[1] ?? text.match(/<div class="problems"[^]*?<li>(?:<a[^>]*>)?([^<]*)</)?.[1] ?? "";
  return list.replaceAll("&#34;", '"').replaceAll("&#39;", "'").replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
}

// The progress of a batch or a task arrives as server-sent events. If no events arrive, the page
// is reloaded instead, because a proxy may reject or buffer events.
for (const area of document.querySelectorAll("[data-progress]")) {
  const source = new EventSource(area.dataset.progress);
  let failed = 0;
  const poll = (wait) => {
    source.close();
    setTimeout(() => fetch(location.href, { method: "HEAD" }).then((response) => (response.ok ? location.reload() : poll(5000)), () => poll(5000)), wait);
  };
  const timeout = setTimeout(poll, 10000, 0);
  source.addEventListener("message", (event) => {
    failed = 0;
    clearTimeout(timeout);
    const now = JSON.parse(event.data);
    for (const bar of area.querySelectorAll("progress")) bar.value = now.done;
    for (const [name, value] of Object.entries(now)) {
      for (const at of area.querySelectorAll(`[data-${name}]`)) at.textContent = value;
    }
    if (now.finished) poll(0);
  });
  source.addEventListener("error", () => {
    if (++failed < 4 && source.readyState !== EventSource.CLOSED) return;
    clearTimeout(timeout);
    poll(5000);
  });
}

// A preview shows the text of a field while the person types.
for (const field of document.querySelectorAll("[data-mirror]")) {
  const preview = document.getElementById(field.dataset.mirror);
  field.addEventListener("input", () => { preview.textContent = field.value; });
}
