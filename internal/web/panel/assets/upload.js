// The upload of one certificate. The file is checked and sent in the background, and a picture of a page
// is shown next to the fields. The page after the form is submitted shows the state of the certificate.

import { start } from "./placement.js";
import { label } from "./sendlabel.js";

const fill = (text, values) => text.replace(/\{(\w+)\}/g, (all, name) => values[name] ?? all);

const form = document.getElementById("fields");
if (form) upload(form);
const done = document.querySelector("#done[data-live]");
if (done) follow(done);

function upload(fields) {
  const texts = document.getElementById("send").dataset;
  const main = document.getElementById("main");
  const sending = main.querySelector(".sending");
  const bar = sending.querySelector("progress");
  const says = sending.querySelector(".says");
  const veil = main.querySelector(".dropveil");
  const issue = document.getElementById("issue");
  let request = null;

  document.getElementById("details-card").hidden = false;
  const input = () => document.getElementById("file");
  const prepare = () => {
    for (const hint of main.querySelectorAll("[data-drop-hint]")) hint.hidden = false;
    for (const actions of main.querySelectorAll("[data-continue]")) actions.hidden = true;
    input()?.addEventListener("change", () => take(input().files));
    for (const link of main.querySelectorAll("[data-choose]")) {
      link.addEventListener("click", (event) => {
        event.preventDefault();
        const picker = Object.assign(document.createElement("input"), { type: "file", accept: ".pdf,.jpg,.jpeg,.png" });
        picker.addEventListener("change", () => take(picker.files));
        picker.click();
      });
    }
  };
  prepare();

  const files = (event) => event.dataTransfer?.types.includes("Files");
  let depth = 0;
  const leave = (all) => {
    depth = all ? 0 : Math.max(0, depth - 1);
    if (!depth) veil.hidden = true;
  };
  addEventListener("dragenter", (event) => {
    if (!files(event)) return;
    event.preventDefault();
    depth++;
    veil.hidden = false;
  });
  addEventListener("dragover", (event) => { if (files(event)) event.preventDefault(); });
  addEventListener("dragleave", (event) => { if (files(event)) leave(false); });
  addEventListener("drop", (event) => {
    if (!files(event)) return;
    event.preventDefault();
    leave(true);
    take(event.dataTransfer.files);
  });

  // clear removes the problem of the file. explain shows a problem and focuses the summary.
  const clear = () => {
    main.querySelector(".problems")?.remove();
    document.getElementById("file-problem")?.remove();
    input()?.removeAttribute("aria-invalid");
    input()?.removeAttribute("aria-describedby");
  };
  const explain = (text) => {
    clear();
    sending.hidden = true;
    const link = Object.assign(document.createElement(input() ? "a" : "span"), { textContent: text });
    if (input()) link.href = "#file";
    const summary = Object.assign(document.createElement("div"), { className: "problems", role: "alert", tabIndex: -1 });
    const heading = Object.assign(document.createElement("h2"), { textContent: texts.problems });
    const item = document.createElement("li");
    const list = document.createElement("ul");
    item.append(link);
    list.append(item);
    summary.append(heading, list);
    document.getElementById("about").before(summary);
    if (input()) {
      const problem = Object.assign(document.createElement("p"), { className: "problem", id: "file-problem", textContent: text });
      input().after(problem);
      input().ariaInvalid = "true";
      input().setAttribute("aria-describedby", "file-problem");
      input().value = "";
    }
    summary.focus();
  };

  // take checks a file and, if the file is accepted, sends it.
  const take = async (list) => {
    if (!list.length) return;
    const [file] = list;
    if (list.length > 1) return explain(texts.single);
    if (!file.size) return explain(fill(texts.empty, { file: file.name }));
    if (file.size > texts.limit) return explain(fill(texts.large, { file: file.name, size: (file.size / 1048576).toFixed(1) }));
    let head;
    try {
      head = new Uint8Array(await file.slice(0, 1024).arrayBuffer());
    } catch {
      return explain(texts.failed);
    }
    if (!known(head)) return explain(fill(/\.(xlsx|csv|tsv|ods|xls)$/i.test(file.name) ? texts.list : texts.wrong, { file: file.name }));
    send(file);
  };

  const send = (file) => {
    request?.abort();
    clear();
    const own = request = new XMLHttpRequest();
    own.open("POST", document.getElementById("send").action);
    own.setRequestHeader("Upload-Script", "1");
    own.responseType = "document";
    sending.hidden = false;
    bar.value = 0;
    says.textContent = fill(texts.sent, { percent: 0 });
    own.upload.addEventListener("progress", (now) => {
      if (!now.lengthComputable) return;
      bar.value = (100 * now.loaded) / now.total;
      says.textContent = now.loaded < now.total ? fill(texts.sent, { percent: Math.floor(bar.value) }) : texts.checking;
    });
    own.addEventListener("load", () => {
      const next = own.getResponseHeader("Location");
      if (own.status < 400 && next) open(new URL(next, location.href), own);
      else explain(own.response?.querySelector(".problems li")?.textContent || texts.failed);
    });
    own.addEventListener("error", () => explain(texts.interrupted));
    own.addEventListener("abort", () => { if (own === request) explain(texts.cancelled); });
    const body = new FormData();
    body.append("file", file);
    own.send(body);
  };
  sending.querySelector("[data-cancel]").addEventListener("click", () => request?.abort());

  // open shows the page of an uploaded file in this page, and keeps the texts that the person has typed.
  // The scripts of a document that an XMLHttpRequest parses do not run.
  const open = (address, sent) => {
    const own = new XMLHttpRequest();
    own.open("GET", address);
    own.responseType = "document";
    own.addEventListener("load", () => {
      if (request !== sent) return;
      const page = own.response;
      const next = page?.getElementById("fields");
      if (own.status >= 400 || !next) {
        explain(page?.querySelector(".problems li")?.textContent || texts.failed);
        return;
      }
      sending.hidden = true;
      main.querySelector(".lead")?.remove();
      for (const picture of page.querySelectorAll("#canvas noscript")) picture.remove();
      for (const part of ["#about", "#canvas", ".head"]) main.querySelector(part).replaceWith(document.importNode(page.querySelector(`main ${part}`), true));
      for (const control of next.querySelectorAll("#details-card :is(input, textarea)")) {
        const mine = document.getElementById(control.id);
        if (!mine || (mine.value && mine.value !== mine.dataset.found)) continue;
        mine.value = mine.dataset.found = control.value;
      }
      for (const part of ["found", "names"]) document.getElementById(part).replaceWith(document.importNode(page.getElementById(part), true));
      fields.action = next.getAttribute("action");
      checkName();
      document.getElementById("sure")?.closest(".choice").remove();
      document.title = page.title;
      history.replaceState(null, "", address);
      issue.disabled = false;
      label();
      prepare();
      start(main.querySelector("[data-placing]"));
      document.getElementById("step").focus();
    });
    own.addEventListener("error", () => explain(texts.interrupted));
    own.send();
  };

  // checkName shows a warning if the file does not contain the name.
  const name = document.getElementById("full_name");
  const checkName = async () => {
    const address = fields.getAttribute("action")?.split("?")[0];
    const warning = document.getElementById("name-warning");
    if (!address) return;
    const checked = name.value;
    let text = "";
    try {
      const response = await fetch(`${address}/name`, { method: "POST", body: new URLSearchParams({ full_name: checked }) });
      if (response.ok) text = await response.text();
    } catch {
      // The check is not essential.
    }
    if (checked === name.value) warning.textContent = text;
  };
  name.addEventListener("change", checkName);

  // A second click must not send the form again. If the browser returns to the page, the button is enabled
  // again if a file was uploaded.
  fields.addEventListener("submit", (event) => {
    if (event.submitter === issue) setTimeout(() => { issue.disabled = true; });
  });
  addEventListener("pageshow", () => { issue.disabled = !fields.getAttribute("action"); });
}

// known reports whether head is the beginning of a PDF, JPEG or PNG file.
function known(head) {
  const begins = (...bytes) => bytes.every((byte, i) => head[i] === byte);
  return begins(0xff, 0xd8, 0xff) || begins(0x89, 0x50, 0x4e, 0x47) || new TextDecoder("latin1").decode(head).includes("%PDF-");
}

// follow shows the state of a certificate until its processing ends. If the server-sent events fail, the
// page is reloaded instead.
function follow(area) {
  const source = new EventSource(area.dataset.live);
  const note = area.querySelector(".note");
  const sheet = area.querySelector(".sheet");
  let failed = 0;
  source.addEventListener("message", (event) => {
    failed = 0;
    const now = JSON.parse(event.data);
    document.getElementById("step").textContent = now.title;
    document.title = now.title;
    if (note.textContent !== now.text) note.textContent = now.text;
    note.className = `note ${now.tone}`;
    area.dataset.status = now.status;
    if (!now.finished) return;
    source.close();
    if (now.status === "approved") sheet.append(Object.assign(document.createElement("img"), { src: sheet.dataset.picture, alt: sheet.dataset.alt }));
  });
  source.addEventListener("error", () => {
    if (++failed < 4 && source.readyState !== EventSource.CLOSED) return;
    source.close();
    setTimeout(() => location.reload(), 5000);
  });
}
