// An exact time is shown in the time zone of the browser, and its title contains the time in UTC. The
// title of a relative time contains both times.
const local = new Intl.DateTimeFormat(document.documentElement.lang, { dateStyle: "long", timeStyle: "short" });
for (const time of document.querySelectorAll("time[data-at]")) {
  const at = local.format(new Date(time.dateTime));
  if (time.dataset.at === "exact") time.textContent = at;
  else time.title = `${at} (${time.title})`;
}

// A time in a form is entered in the time zone of the browser and sent in UTC. Without a script, the
// person enters it in UTC.
document.documentElement.dataset.zone = "local";
for (const field of document.querySelectorAll("[data-utc]")) {
  const utc = document.getElementById(field.dataset.utc);
  if (field.value) {
    const at = new Date(`${field.value}Z`);
    field.value = new Date(at - at.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
  }
  const send = () => { utc.value = field.value ? new Date(field.value).toISOString() : ""; };
  field.addEventListener("input", send);
  send();
}

// A change of a control that belongs to an option selects the option.
for (const picker of document.querySelectorAll("[data-picks]")) {
  picker.addEventListener("change", () => {
    document.getElementById(picker.dataset.picks).checked = true;
  });
}

// A color picker next to the field for a color code. The picker sets the field, and a valid code in the
// field sets the picker.
for (const picker of document.querySelectorAll("[data-picks-for]")) {
  const field = document.getElementById(picker.dataset.picksFor);
  picker.hidden = false;
  picker.addEventListener("input", () => { field.value = picker.value; });
  field.addEventListener("input", () => {
    const code = field.value.trim().toLowerCase();
    if (/^#[0-9a-f]{6}$/.test(code)) picker.value = code;
  });
}

// The progress of a bulk upload, a certificate or a task arrives as server-sent events. If no events
// arrive, the page is reloaded instead, because a proxy may reject or buffer events.
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

// A page that shows the progress of work is loaded again, unless the person has changed something on the
// page, because a reload would discard that. While a field has the focus, the page waits.
for (const area of document.querySelectorAll("[data-reload]")) {
  let changed = false;
  document.addEventListener("input", () => { changed = true; });
  const reload = () => {
    if (changed) return;
    if (document.activeElement?.matches("input, select, textarea")) setTimeout(reload, 1000);
    else location.reload();
  };
  setTimeout(reload, 1000 * area.dataset.reload);
}

// A preview shows the text of a field while a person types.
for (const field of document.querySelectorAll("[data-mirror]")) {
  const preview = document.getElementById(field.dataset.mirror);
  field.addEventListener("input", () => { preview.textContent = field.value; });
}
