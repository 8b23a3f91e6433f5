// The pages of a bulk upload.

const isList = (file) => /\.(xlsx|xlsm|xls|ods|csv|tsv|txt)$/i.test(file.name);

// setFiles sets the files of a control.
const setFiles = (control, files) => {
  const chosen = new DataTransfer();
  for (const file of files) chosen.items.add(file);
  control.files = chosen.files;
};

// The upload of the list and of files shows its progress and can be canceled. Files can be dropped
// anywhere on the page.
for (const form of document.querySelectorAll("form[data-bulk-upload]")) {
  const text = form.dataset;
  const { list, files } = form.elements;
  const bar = form.querySelector("progress");
  const status = form.querySelector(".says");
  const cancel = form.querySelector("[data-cancel]");
  const say = (message, isProblem) => {
    status.textContent = message;
    status.classList.toggle("problem", isProblem);
  };
  for (const hint of form.querySelectorAll("[data-drop-hint]")) hint.hidden = false;

  // sort assigns the first list to the control for the list, and the files that are not lists to the
  // control for files. It returns false if a list is chosen and the form has no control for a list.
  const sort = (chosen) => {
    const lists = chosen.filter(isList);
    const others = chosen.filter((file) => !isList(file));
    setFiles(files, others);
    if (list && lists.length) setFiles(list, lists.slice(0, 1));
    if (!list && lists.length) say(text.listRefused, true);
    return list || !lists.length;
  };
  // The text of the button says what the form uploads.
  const button = form.querySelector("button[data-both]");
  const upload = button?.textContent;
  const label = () => {
    if (button) button.textContent = !files.files.length ? upload : list.files.length ? button.dataset.both : button.dataset.onlyFiles;
  };
  form.addEventListener("change", label);
  window.addEventListener("pageshow", label);
  files.addEventListener("change", () => {
    say("", false);
    if (Array.from(files.files).some(isList)) sort(Array.from(files.files));
  });
  list?.addEventListener("change", () => {
    const chosen = Array.from(list.files);
    if (!chosen.length || chosen.every(isList)) return;
    list.value = "";
    sort(chosen.concat(Array.from(files.files)));
  });

  document.addEventListener("dragover", (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    form.classList.add("over");
  });
  document.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) form.classList.remove("over");
  });
  document.addEventListener("drop", (event) => {
    if (!event.dataTransfer?.files.length) return;
    event.preventDefault();
    form.classList.remove("over");
    say("", false);
    if (sort(Array.from(event.dataTransfer.files)) || files.files.length) form.requestSubmit();
  });

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const request = new XMLHttpRequest();
    request.open("POST", form.action);
    request.setRequestHeader("Upload-Script", "1");
    bar.hidden = false;
    cancel.hidden = false;
    const stop = (message) => {
      bar.hidden = true;
      cancel.hidden = true;
      say(message, true);
      status.tabIndex = -1;
      status.focus();
    };
    say("", false);
    for (const control of [list, files]) control?.removeAttribute("aria-invalid");
    request.upload.addEventListener("progress", (step) => {
      if (!step.lengthComputable) return;
      bar.value = (100 * step.loaded) / step.total;
      say(step.loaded < step.total ? text.sent.replace("{percent}", Math.floor(bar.value)) : text.checking, false);
    });
    request.addEventListener("load", () => {
      const next = request.getResponseHeader("Location");
      if (request.status < 400 && next) {
        // If only the fragment differs, assign would only scroll and not load the page.
        if (new URL(next, location.href).pathname === location.pathname) location.reload();
        else location.assign(next);
        return;
      }
      // The page in the response contains the problem. Upload-Taken lists the controls whose
      // files the vault has stored in spite of the problem. These files must not be sent again.
      let message = problemOf(request.responseText) || text.failed;
      for (const name of (request.getResponseHeader("Upload-Taken") ?? "").split(" ").filter(Boolean)) {
        if (form.elements[name]) form.elements[name].value = "";
        message += ` ${name === "list" ? text.listStored : text.filesStored}`;
      }
      const invalid = request.responseText.match(/id="(list|files)-problem"/)?.[1];
      if (invalid) form.elements[invalid]?.setAttribute("aria-invalid", "true");
      stop(message);
    });
    request.addEventListener("error", () => stop(text.interrupted));
    request.addEventListener("abort", () => stop(text.canceled));
    cancel.onclick = () => request.abort();
    request.send(new FormData(form));
  });
}

// problemOf returns the first problem in the HTML of a page as text. The text must not be used as markup.
function problemOf(text) {
  const found = text.match(/<p class="problem"[^>]*>([^<]*)</)?.[1] ?? text.match(/<div class="problems"[^]*?<li>(?:<a[^>]*>)?([^<]*)</)?.[1] ?? "";
  return found.replaceAll("&#34;", '"').replaceAll("&#39;", "'").replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
}

// A change of the form updates the list of unused columns and the warning about the date of issue.
for (const form of document.querySelectorAll("form[data-columns]")) {
  const section = form.querySelector("[data-unused]");
  const { issue_date: date, same_issue_date: same } = form.elements;
  const update = () => {
    const dated = date.value !== "-1" || same.value.trim() !== "";
    form.querySelector("[data-no-date]").hidden = dated;
    form.querySelector("[data-date-hint]").hidden = !dated;
    if (!section) return;
    const used = new Set(Array.from(form.querySelectorAll("select"), (select) => select.value));
    let n = 0;
    for (const item of section.querySelectorAll("[data-column]")) {
      item.hidden = used.has(item.dataset.column);
      if (!item.hidden) n++;
    }
    section.querySelector("[data-unused-count]").textContent = n;
    section.hidden = !n;
  };
  form.addEventListener("input", update);
  // When a person returns to the page, the browser may restore earlier choices.
  window.addEventListener("pageshow", update);
}

// While the vault unpacks an archive, the step of the files shows the progress.
for (const step of document.querySelectorAll("[data-unpacking]")) {
  const source = new EventSource(step.dataset.unpacking);
  source.addEventListener("message", (event) => {
    const now = JSON.parse(event.data);
    step.className = now.state;
    step.querySelector(".lacks").textContent = now.text;
    if (now.finished) source.close();
  });
}

// After the file of a row is uploaded, the corrections of the other rows are submitted too.
for (const form of document.querySelectorAll("form[data-row-file]")) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const control = form.elements.upload;
    const problem = control.closest(".field").querySelector(".problem");
    let message = form.dataset.failed;
    try {
      const response = await fetch(form.action, { method: "POST", body: new FormData(form), headers: { "Upload-Script": "1" } });
      if (response.ok && response.headers.has("Location")) {
        const fixes = document.getElementById("fixes");
        fixes.requestSubmit(fixes.querySelector("button[value=fix]"));
        return;
      }
      message = problemOf(await response.text()) || message;
    } catch { /* message says that the upload failed */ }
    problem.textContent = message;
  });
}

// On the page of a row, J opens the next row and K opens the previous row, unless the focus is in a
// control in which a person types or selects.
const neighbors = Array.from(document.querySelectorAll("a[data-key]"));
for (const hint of document.querySelectorAll("[data-keys]")) hint.hidden = !neighbors.length;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest("select, textarea, input:not([type=radio], [type=checkbox])")) return;
  neighbors.find((link) => link.dataset.key === event.key.toLowerCase())?.click();
});
