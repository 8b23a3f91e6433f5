// The designer of templates. It shows the fields of a page in one SVG whose unit is the point, so the
// zoom changes only the size of the SVG. The vault draws the outline of each text with the fonts and the
// size that the certificate will have. While fields are moved, only transforms change.

const NS = "http://www.w3.org/2000/svg";
const MM = 72 / 25.4;
const MIN_QR = 20 * MM;
const MARGIN = 12.7 * MM;
const at = (id) => document.getElementById(id);
const data = JSON.parse(at("designer-data").textContent);
const base = `${data.base}/design`;
const numbers = new Intl.NumberFormat(document.documentElement.lang, { maximumFractionDigits: 1 });
const t = (key, values = {}) => (data.texts[key] ?? key).replace(/\{(\w+)\}/g, (all, name) => values[name] ?? all);
const element = (create) => (name, attributes = {}, ...children) => {
  const e = create(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) e.addEventListener(key.slice(2), value);
    else if (value !== false && value !== undefined) e.setAttribute(key, value === true ? "" : value);
  }
  e.append(...children);
  return e;
};
const html = element((name) => document.createElement(name));
const svg = element((name) => document.createElementNS(NS, name));
const mm = (points) => numbers.format(points / MM);
const round = (v) => Math.round(v * 100) / 100;
const clamp = (v, low, high) => Math.min(high, Math.max(low, v));

const icons = {
  name: "M12 12a4 4 0 100-8 4 4 0 000 8zM4 21c0-4 3.6-6.5 8-6.5s8 2.5 8 6.5", title: "M5 5h14M12 5v14M8.5 19h7", date: "M4 6h16v14H4zM4 10.5h16M8 3v4M16 3v4",
  expiry: "M12 21a9 9 0 100-18 9 9 0 000 18zM12 7v5l3.5 2", reference: "M9 4L7 20M17 4l-2 16M4 9h17M3 15h17", details: "M4 6h16M4 12h16M4 18h9", column: "M4 5h16v14H4zM9.5 5v14M14.5 5v14",
  institution: "M3 9.5L12 4l9 5.5M5 10v8M10 10v8M14 10v8M19 10v8M3 20.5h18", text: "M6 6V4h12v2M12 4v16M9.5 20h5", image: "M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4M15 9h.01", logo: "M12 4l2.4 5 5.6.600-4.2 3.8 1.2 5.6-5-2.9-5 2.9 1.2-5.6L4 9.6 9.6 9z",
  qr: "M4 4h6v6H4zM14 4h6v6h-6zM4 14h6v6H4zM14 14h2v2h-2zM18 18h2v2h-2zM18 14h2M14 18v2", signature: "M3 17c3 0 4-10 7-10s-2 9 1 9 3-4 5-4 1 3 5 3M3 21h18",
  lock: "M6 11h12v9H6zM8.5 11V8a3.5 3.5 0 017 0v3", unlock: "M6 11h12v9H6zM8.5 11V8a3.5 3.5 0 016.8-1.2", show: "M2.5 12S6 5.5 12 5.5 21.5 12 21.5 12 18 18.5 12 18.5 2.5 12 2.5 12zM12 14.5a2.5 2.5 0 100-5 2.5 2.5 0 000 5z", hide: "M4 4l16 16M9 6.2A9.5 9.5 0 0112 5.5c6 0 9.5 6.5 9.5 6.5a16 16 0 01-3 3.6M6 7.5A16 16 0 002.5 12S6 18.5 12 18.5a9 9 0 004-.9",
  left: "M4 6h16M4 12h10M4 18h13", center: "M4 6h16M7 12h10M5.5 18h13", right: "M4 6h16M10 12h10M7 18h13", top: "M4 4h16M12 20V8M8.5 11.5L12 8l3.5 3.5", middle: "M4 12h16M12 3v5M12 21v-5", bottom: "M4 20h16M12 4v12M8.5 12.5L12 16l3.5-3.5",
  edge_left: "M4 3v18M8 7h12v3H8zM8 14h7v3H8z", edge_center: "M12 3v4M12 10v4M12 17v4M5 7h14v3H5zM8 14h8v3H8z", edge_right: "M20 3v18M4 7h12v3H4zM9 14h7v3H9z",
  edge_top: "M3 4h18M7 8v12h3V8zM14 8v7h3V8z", edge_middle: "M3 12h4M10 12h4M17 12h4M7 5v14h3V5zM14 8v8h3V8z", edge_bottom: "M3 20h18M7 4v12h3V4zM14 9v7h3V9z",
  spread_x: "M4 4v16M20 4v16M10 7h4v10h-4z", spread_y: "M4 4h16M4 20h16M7 10v4h10v-4z", same_width: "M4 9v6M20 9v6M4 12h16M7 9.5L4.5 12 7 14.5M17 9.5l2.5 2.5-2.5 2.5", same_height: "M9 4h6M9 20h6M12 4v16M9.5 7L12 4.5 14.5 7M9.5 17l2.5 2.5 2.5-2.5",
};
const icon = (name) => svg("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: icons[name] ?? icons.text }));

// shapes has the drawn texts, by the ids of their fields. problems and warnings are those of the saved
// layout. locked and hidden have ids of fields, and are not saved.
let layout = data.layout;
let { name, revision, problems, warnings } = data;
let page = 1;
let zoom = 1;
let { sample } = data;
let own = "";
let row = null; // the chosen row of the uploaded list, or null
let isReal = false;
let stopped = false;
const shapes = new Map();
const selected = new Set();
const locked = new Set();
const hidden = new Set();
const size = () => data.pages[page - 1];
const find = (id) => layout.fields.find((f) => f.id === id);
const onPage = () => layout.fields.filter((f) => f.page === page);
const chosen = () => layout.fields.filter((f) => selected.has(f.id));
const movable = () => chosen().filter((f) => !locked.has(f.id));
const isPicture = (f) => f.kind === "image" || f.kind === "signature";
const isText = (f) => f.kind !== "qr" && !isPicture(f);
const titleOf = (f) => f.label || (f.kind === "column" && f.text?.match(/\{column:([^{}]+)\}/)?.[1]) || (f.kind === "text" && f.text && !/^\{\w+\}$/.test(f.text) ? f.text.slice(0, 40) : t(`kind_${f.kind}`));
const iconOf = (f) => (f.kind === "image" && f.image === "logo" ? "logo" : f.kind === "date" && f.text === "{expiry}" ? "expiry" : f.kind);

// Each note gets a button to close it.
for (const note of document.querySelectorAll("#main > .note")) {
  note.append(html("button", { type: "button", class: "quiet small d-close", onclick: () => note.remove() }, t("close")));
}

let announcing = 0;
function announce(text) {
  clearTimeout(announcing);
  announcing = setTimeout(() => { at("says").textContent = text; }, 120);
}
const announcePlace = (f) => announce(t("says_place", { field: titleOf(f), x: mm(f.box[0]), y: mm(f.box[1]) }));
const announceSize = (f) => announce(t("says_size", { field: titleOf(f), w: mm(f.box[2]), h: mm(f.box[3]) }));

// ---- Changing, undoing and saving
const done = [];
const undone = [];
let merging = { key: "", time: 0 };
const snapshot = () => JSON.stringify({ layout, name });
function remember(state = snapshot()) {
  done.push(state);
  if (done.length > 200) done.shift();
  undone.length = 0;
}

// change calls f, which changes the layout or the name of the template. Changes with the same key are
// undone together if each follows the previous one within one second.
function change(f, key = "") {
  document.querySelector("#main > .note[role=status]")?.remove();
  const now = performance.now();
  if (!key || key !== merging.key || now - merging.time > 1000) remember();
  merging = { key, time: now };
  f();
  changed();
}
function changed() {
  draw();
  save();
}
function travel(from, to) {
  if (!from.length) return;
  to.push(snapshot());
  merging = { key: "", time: 0 };
  const before = new Map(layout.fields.map((f) => [f.id, looks(f)]));
  ({ layout, name } = JSON.parse(from.pop()));
  for (const id of selected) if (!find(id)) selected.delete(id);
  shape(layout.fields.filter((f) => before.get(f.id) !== looks(f)));
  shown = "";
  changed();
  announce(t(from === done ? "says_undone" : "says_redone"));
}
const undo = () => travel(done, undone);
const redo = () => travel(undone, done);

let unsaved = 0;
let saving = false;
let saveTimer = 0;
const leave = (event) => event.preventDefault();
function save() {
  if (stopped) return;
  if (!unsaved++) addEventListener("beforeunload", leave);
  says("saved", t("saving"));
  clearTimeout(saveTimer);
  saveTimer = setTimeout(send, 700);
}
const says = (id, text, bad = false) => {
  const e = at(id);
  if (e.textContent !== text) e.textContent = text;
  e.classList.toggle("bad", bad);
};
const post = (path, body, signal) => fetch(`${base}${path}`, { method: "POST", headers: { "Content-Type": "application/json", Accept: "application/json" }, body: JSON.stringify(body), signal });
const isJSON = (response) => response.headers.get("Content-Type")?.startsWith("application/json");

// send saves the layout and the name, and reports whether there are no unsaved changes.
async function send() {
  clearTimeout(saveTimer);
  if (saving || stopped) return false;
  if (!unsaved) return true;
  saving = true;
  const sent = unsaved;
  let wait = 4000;
  try {
    const response = await post("", { revision, name, layout });
    if (response.status === 409) {
      stopped = true;
      saving = false;
      says("saved", t("not_saved"), true);
      at("conflict").hidden = false;
      at("reload").focus();
      return false;
    }
    const answer = isJSON(response) ? await response.json() : null;
    if (response.ok && answer) {
      ({ revision, problems, warnings } = answer);
      at("version").textContent = answer.version;
      at("publish").textContent = answer.publish;
      if (unsaved === sent) {
        unsaved = 0;
        removeEventListener("beforeunload", leave);
        says("saved", t("saved"));
      } else wait = 300;
      drawProblems();
    } else {
      says("saved", answer?.message ?? t(response.redirected || response.status === 401 ? "signed_out" : "not_saved"), true);
    }
  } catch {
    says("saved", t("offline"), true);
  }
  saving = false;
  if (unsaved) saveTimer = setTimeout(send, wait);
  return !unsaved;
}
async function saveNow() {
  for (let i = 0; i < 40 && !stopped && unsaved; i++) {
    if (!(await send())) await new Promise((resolve) => { setTimeout(resolve, 100); });
  }
  return !unsaved && !stopped;
}

// ---- The texts that the vault draws
const looks = (f) => JSON.stringify({ ...f, box: [0, 0, f.box[2], f.box[3]], label: "" });
const waiting = new Set();
const asked = new Map();
let askTimer = 0;
const values = () => (row ? { row } : own ? { name: own } : undefined);
function shape(fields = layout.fields) {
  for (const f of fields) if (isText(f)) waiting.add(f.id);
  clearTimeout(askTimer);
  askTimer = setTimeout(ask, 40);
}
async function ask() {
  const fields = layout.fields.filter((f) => waiting.has(f.id));
  waiting.clear();
  if (!fields.length) return;
  const token = {};
  for (const f of fields) asked.set(f.id, token);
  let answer;
  try {
    const response = await post("/shape", { fields, language: layout.language, title: layout.title, sample, values: values() });
    if (!response.ok || !isJSON(response)) return;
    answer = await response.json();
  } catch {
    return;
  }
  for (const [id, one] of Object.entries(answer.shapes)) if (asked.get(id) === token) shapes.set(id, one);
  drawInk();
  drawProblems();
  syncProps();
}

// ---- The page
const paper = at("paper");
const layer = svg("g");
const guideX = svg("line", { class: "guide" });
const guideY = svg("line", { class: "guide" });
const top = svg("g", { class: "top" });
const marquee = svg("rect", { class: "marquee" });
paper.append(layer, guideX, guideY, marquee, top);
const groups = new Map();
const place = (f, dx = 0, dy = 0) => {
  const [x, y, w, h] = f.box;
  return `translate(${round(x + dx)} ${round(y + dy)})${f.rotate ? ` rotate(${f.rotate} ${round(w / 2)} ${round(h / 2)})` : ""}`;
};

// This drawing only shows the place of the QR code. The vault draws the real code.
const code = (() => {
  const n = 29, on = (x, y) => {
    for (const [cx, cy] of [[0, 0], [n - 7, 0], [0, n - 7]]) {
      const [dx, dy] = [x - cx, y - cy];
      if (dx >= -1 && dy >= -1 && dx <= 7 && dy <= 7) return Math.max(Math.abs(dx - 3), Math.abs(dy - 3)) !== 2 && Math.max(Math.abs(dx - 3), Math.abs(dy - 3)) !== 4;
    }
    return ((x * 7919 + y * 104729 + x * y * 31) % 97) % 2 === 0;
  };
  let d = "";
  for (let y = 0; y < n; y++) for (let x = 0; x < n; x++) if (on(x, y)) d += `M${x} ${y}h1v1h-1z`;
  return { d, n };
})();

function createGroup(f) {
  const hit = svg("rect", { class: "hit" });
  // A signature is shown as a symbol, because a member sees only the picture of their own signature.
  const ink = f.kind === "signature" ? svg("path", { d: icons.signature, fill: "none", stroke: "#1a1a1a" }) : isPicture(f) ? svg("image") : svg("path", { class: "ink" });
  const node = svg("g", { class: "f", tabindex: "0", role: "button", "data-id": f.id });
  if (f.kind === "qr") {
    node.append(svg("rect", { class: "white" }));
    ink.setAttribute("d", code.d);
  }
  node.append(ink, hit);
  node.addEventListener("focus", () => { if (!selected.has(f.id) && !dragging) select([f.id]); });
  return { node, hit, ink };
}
function draw() {
  const fields = onPage();
  for (const [id, g] of groups) {
    if (!fields.some((f) => f.id === id)) {
      g.node.remove();
      groups.delete(id);
    }
  }
  fields.forEach((f, i) => {
    let g = groups.get(f.id);
    if (!g) groups.set(f.id, g = createGroup(f));
    if (layer.children[i] !== g.node) {
      const focused = document.activeElement === g.node;
      layer.insertBefore(g.node, layer.children[i] ?? null);
      if (focused) g.node.focus({ preventScroll: true });
    }
    g.node.setAttribute("transform", place(f));
    g.node.setAttribute("aria-label", t("field_at", { field: titleOf(f), x: mm(f.box[0]), y: mm(f.box[1]), w: mm(f.box[2]), h: mm(f.box[3]) }));
    g.node.setAttribute("aria-pressed", selected.has(f.id));
    g.node.setAttribute("class", `f${selected.has(f.id) ? " on" : ""}${locked.has(f.id) ? " locked" : ""}${hidden.has(f.id) ? " gone" : ""}`);
    resizeGroup(f, g);
  });
  drawTop();
  drawInk();
  drawList();
  drawProblems();
  drawProps();
  drawRulers();
  at("undo").disabled = !done.length;
  at("redo").disabled = !undone.length;
}
function resizeGroup(f, g) {
  const [, , w, h] = f.box;
  g.hit.setAttribute("width", w);
  g.hit.setAttribute("height", h);
  if (f.kind === "qr") {
    const side = Math.min(w, h), unit = side / (code.n + 8);
    g.node.firstChild.setAttribute("width", w);
    g.node.firstChild.setAttribute("height", h);
    g.ink.setAttribute("transform", `translate(${round((w - side) / 2 + 4 * unit)} ${round((h - side) / 2 + 4 * unit)}) scale(${unit})`);
  } else if (f.kind === "signature") {
    const scale = Math.min(w / 24, h / 24), free = { center: .5, right: 1 }[f.align] ?? 0, down = { top: 0, bottom: 1 }[f.valign] ?? .5;
    g.ink.setAttribute("transform", `translate(${round(free * (w - 24 * scale))} ${round(down * (h - 24 * scale))}) scale(${scale})`);
  } else if (isPicture(f)) {
    g.ink.setAttribute("width", w);
    g.ink.setAttribute("height", h);
    g.ink.setAttribute("preserveAspectRatio", `x${{ center: "Mid", right: "Max" }[f.align] ?? "Min"}Y${{ top: "Min", bottom: "Max" }[f.valign] ?? "Mid"}`);
    const href = f.image && (f.image !== "logo" || data.logo) ? `${base}/pictures/${f.image}` : "";
    if (!href) g.ink.removeAttribute("href");
    else if (g.ink.getAttribute("href") !== href) g.ink.setAttribute("href", href);
  }
}
function drawInk() {
  for (const f of onPage()) {
    const g = groups.get(f.id), s = shapes.get(f.id);
    if (!g) continue;
    if (isText(f)) {
      if (g.d !== s?.d) g.ink.setAttribute("d", g.d = s?.d ?? "");
      g.ink.setAttribute("fill", f.color || "#000000");
    }
    g.node.classList.toggle("bad", problemsOf(f).length > 0);
  }
}

// problemsOf returns the problems of a field, without duplicates: the problem of its text with the chosen
// sample, and the problems of the field in the saved layout.
const problemsOf = (f) => [...(shapes.get(f.id)?.problem && isText(f) ? [shapes.get(f.id).problem] : []), ...problems.filter((p) => p.field === f.id && !(p.code === shapes.get(f.id)?.problem?.code && p.detail === shapes.get(f.id)?.problem?.detail))];
const propertyOf = (p) => ({ field_invalid: p.detail, placeholder: "text", qr_too_small: "box", qr_covered: "box", qr_not_readable: "box" })[p.code];

const corners = [["nw", 0, 0], ["n", .5, 0], ["ne", 1, 0], ["e", 1, .5], ["se", 1, 1], ["s", .5, 1], ["sw", 0, 1], ["w", 0, .5]];
const cursors = ["ns", "nesw", "ew", "nwse"];
const bounds = (fields) => {
  let [left, upper, right, lower] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const f of fields) {
    const [x, y, w, h] = f.box, a = (f.rotate ?? 0) * Math.PI / 180;
    const [hw, hh] = [(Math.abs(w * Math.cos(a)) + Math.abs(h * Math.sin(a))) / 2, (Math.abs(w * Math.sin(a)) + Math.abs(h * Math.cos(a))) / 2];
    const [cx, cy] = [x + w / 2, y + h / 2];
    left = Math.min(left, cx - hw); right = Math.max(right, cx + hw); upper = Math.min(upper, cy - hh); lower = Math.max(lower, cy + hh);
  }
  return [left, upper, right - left, lower - upper];
};
function drawTop() {
  const fields = chosen().filter((f) => f.page === page && !hidden.has(f.id)), k = 1 / zoom;
  top.removeAttribute("transform");
  if (!fields.length || isReal) {
    top.replaceChildren();
    return;
  }
  const parts = [];
  if (fields.length > 1) {
    const [x, y, width, height] = bounds(fields);
    parts.push(svg("rect", { class: "around", x, y, width, height }));
  } else {
    const [f] = fields, [, , w, h] = f.box;
    const g = svg("g", { transform: place(f) });
    if (!locked.has(f.id)) {
      if (f.kind !== "qr") {
        g.append(svg("line", { class: "stem", x1: w / 2, y1: 0, x2: w / 2, y2: -20 * k }), svg("circle", { class: "turn", cx: w / 2, cy: -24 * k, r: 5.5 * k, "data-turn": "" }));
      }
      for (const [, hx, hy] of corners) {
        if (h * zoom < 28 && hy === .5 || w * zoom < 28 && hx === .5) continue;
        const angle = Math.round((Math.atan2(hy - .5, hx - .5) * 180 / Math.PI + 90 + (f.rotate ?? 0) + 720) / 45) % 4;
        g.append(svg("rect", { class: "handle", x: hx * w - 4.5 * k, y: hy * h - 4.5 * k, width: 9 * k, height: 9 * k, rx: 2 * k }),
          svg("rect", { class: `grip ${cursors[angle]}`, x: hx * w - 8 * k, y: hy * h - 8 * k, width: 16 * k, height: 16 * k, "data-grip": `${hx} ${hy}` }));
      }
    }
    parts.push(g);
  }
  top.replaceChildren(...parts);
}

// ---- Selection
function select(ids, { focus = false, quiet = false } = {}) {
  selected.clear();
  for (const id of ids) selected.add(id);
  const first = find(ids[0]);
  if (first && first.page !== page) setPage(first.page);
  draw();
  if (focus && first) groups.get(first.id)?.node.focus({ preventScroll: true });
  if (quiet) return;
  if (ids.length > 1) announce(t("says_many", { n: numbers.format(ids.length) }));
  else if (first) announce(t("says_selected", { field: titleOf(first) }));
}

// ---- Dragging
const point = (e) => {
  const r = paper.getBoundingClientRect(), s = size();
  return [(e.clientX - r.left) / r.width * s.width, (e.clientY - r.top) / r.height * s.height];
};
let dragging = null;
let frame = 0;
const rotated = (dx, dy, degrees) => {
  const a = degrees * Math.PI / 180;
  return [dx * Math.cos(a) - dy * Math.sin(a), dx * Math.sin(a) + dy * Math.cos(a)];
};

// lines returns the coordinates to which edges and centers snap, for the axis 0 (x) or 1 (y).
function lines(axis, moving) {
  const s = size(), length = axis ? s.height : s.width, out = [0, MARGIN, length / 2, length - MARGIN, length];
  for (const f of onPage()) {
    if (moving.has(f.id) || hidden.has(f.id)) continue;
    const b = bounds([f]);
    out.push(b[axis], b[axis] + b[axis + 2] / 2, b[axis] + b[axis + 2]);
  }
  return out;
}
function nearest(targets, edges, near) {
  let best = null;
  for (const target of targets) {
    for (const edge of edges) {
      const d = target - edge;
      if (Math.abs(d) < near && (!best || Math.abs(d) < Math.abs(best.d))) best = { d, target };
    }
  }
  return best;
}
function guide(line, axis, target) {
  const name = target === undefined ? "guide" : "guide on";
  if (target !== undefined) line.setAttribute("transform", axis ? `translate(0 ${target})` : `translate(${target} 0)`);
  if (line.getAttribute("class") !== name) line.setAttribute("class", name);
}
const noGuides = () => { guide(guideX, 0); guide(guideY, 1); };

function begin(e) {
  if (e.button !== 0 || isReal) return;
  const grip = e.target.dataset?.grip, turn = "turn" in (e.target.dataset ?? {});
  const id = e.target.closest?.(".f")?.dataset.id;
  const keep = e.shiftKey || e.ctrlKey || e.metaKey;
  if (grip === undefined && !turn) {
    if (id && e.shiftKey) {
      const ids = new Set(selected);
      ids.has(id) ? ids.delete(id) : ids.add(id);
      select([...ids]);
    } else if (id && !selected.has(id)) select([id]);
    else if (!id && !keep) select([], { quiet: true });
    if (id) groups.get(id)?.node.focus({ preventScroll: true });
    else paper.focus({ preventScroll: true });
    if (!id && e.pointerType === "touch") return;
  }
  const kind = grip !== undefined ? "resize" : turn ? "turn" : id ? "move" : "marquee";
  const fields = kind === "marquee" ? [] : movable();
  if (kind !== "marquee" && !fields.length) return;
  const moving = new Set(fields.map((f) => f.id));
  dragging = {
    kind, from: point(e), last: e, fields, moved: false, before: snapshot(), was: new Map(fields.map((f) => [f.id, { box: [...f.box], rotate: f.rotate ?? 0 }])),
    grip: grip?.split(" ").map(Number), bounds: fields.length ? bounds(fields) : null, lines: [lines(0, moving), lines(1, moving)], base: keep ? [...selected] : [], dx: 0, dy: 0,
  };
  paper.setPointerCapture(e.pointerId);
  e.preventDefault();
}
function move(e) {
  if (!dragging) return;
  dragging.last = e;
  frame ||= requestAnimationFrame(step);
}

// step applies the last movement of the pointer. move requests it at most once per frame.
function step() {
  frame = 0;
  if (!dragging) return;
  const { from, last, kind } = dragging;
  const [px, py] = point(last);
  const [dx, dy] = [px - from[0], py - from[1]];
  if (!dragging.moved && Math.hypot(dx, dy) * zoom < 3) return;
  dragging.moved = true;
  ({ move: moveBy, resize: resizeBy, turn: turnTo, marquee: markTo })[kind](dx, dy, last, [px, py]);
}
function moveBy(dx, dy, e) {
  if (e.shiftKey) Math.abs(dx) > Math.abs(dy) ? dy = 0 : dx = 0;
  const b = dragging.bounds, guides = [];
  if (!e.ctrlKey && !e.metaKey) {
    for (const axis of [0, 1]) {
      if (e.shiftKey && !(axis ? dy : dx)) continue;
      const start = b[axis] + (axis ? dy : dx), hit = nearest(dragging.lines[axis], [start, start + b[axis + 2] / 2, start + b[axis + 2]], 5 / zoom);
      if (!hit) continue;
      if (axis) dy += hit.d; else dx += hit.d;
      guides[axis] = hit.target;
    }
  }
  guide(guideX, 0, guides[0]);
  guide(guideY, 1, guides[1]);
  [dragging.dx, dragging.dy] = [dx, dy];
  for (const f of dragging.fields) groups.get(f.id)?.node.setAttribute("transform", place(f, dx, dy));
  top.setAttribute("transform", `translate(${round(dx)} ${round(dy)})`);
}
function resizeBy(dx, dy, e) {
  const [f] = dragging.fields, was = dragging.was.get(f.id), [hx, hy] = dragging.grip;
  noGuides();
  if (!was.rotate && !e.ctrlKey && !e.metaKey) {
    for (const [axis, on] of [[0, hx], [1, hy]]) {
      if (on === .5) continue;
      const hit = nearest(dragging.lines[axis], [was.box[axis] + on * was.box[axis + 2] + (axis ? dy : dx)], 5 / zoom);
      if (!hit) continue;
      if (axis) dy += hit.d; else dx += hit.d;
      guide(axis ? guideY : guideX, axis, hit.target);
    }
  }
  const [lx, ly] = rotated(dx, dy, -was.rotate);
  let w = Math.max(6, was.box[2] + (hx === 1 ? lx : hx === 0 ? -lx : 0));
  let h = Math.max(6, was.box[3] + (hy === 1 ? ly : hy === 0 ? -ly : 0));
  if (f.kind === "qr") w = h = Math.max(12, hx === .5 ? h : hy === .5 ? w : Math.max(w, h));
  else if (isPicture(f) && hx !== .5 && hy !== .5 && !e.shiftKey) h = w * was.box[3] / was.box[2];
  resizeTo(f, was, w, h, hx, hy);
  shape([f]);
  const g = groups.get(f.id);
  g.node.setAttribute("transform", place(f));
  resizeGroup(f, g);
  drawTop();
}

// resizeTo sets the size of a field. The point opposite to the handle stays where it is.
function resizeTo(f, was, w, h, hx, hy) {
  const [x, y, ow, oh] = was.box;
  const shift = rotated((w - ow) * (hx - .5), (h - oh) * (hy - .5), was.rotate);
  f.box = [round(x + ow / 2 + shift[0] - w / 2), round(y + oh / 2 + shift[1] - h / 2), round(w), round(h)];
}
function turnTo(dx, dy, e, [px, py]) {
  const [f] = dragging.fields, [x, y, w, h] = f.box;
  let angle = Math.atan2(py - y - h / 2, px - x - w / 2) * 180 / Math.PI + 90;
  angle = e.shiftKey ? Math.round(angle / 15) * 15 : Math.abs(angle - Math.round(angle / 90) * 90) < 2 ? Math.round(angle / 90) * 90 : Math.round(angle);
  f.rotate = (angle + 540) % 360 - 180 || 0;
  groups.get(f.id).node.setAttribute("transform", place(f));
  top.firstChild?.setAttribute("transform", place(f));
}
function markTo(dx, dy) {
  const [x, y] = dragging.from;
  const [left, upper, w, h] = [Math.min(x, x + dx), Math.min(y, y + dy), Math.abs(dx), Math.abs(dy)];
  marquee.setAttribute("transform", `translate(${left} ${upper})`);
  marquee.setAttribute("width", w);
  marquee.setAttribute("height", h);
  marquee.setAttribute("class", "marquee on");
  const ids = new Set(dragging.base);
  for (const f of onPage()) {
    const b = bounds([f]);
    if (!hidden.has(f.id) && !locked.has(f.id) && b[0] < left + w && b[0] + b[2] > left && b[1] < upper + h && b[1] + b[3] > upper) ids.add(f.id);
  }
  dragging.ids = [...ids];
  for (const f of onPage()) groups.get(f.id)?.node.classList.toggle("on", ids.has(f.id));
}
function end(e) {
  if (!dragging) return;
  if (e.type !== "pointercancel") {
    dragging.last = e;
    step();
  }
  cancelAnimationFrame(frame);
  frame = 0;
  const { kind, moved, fields, before, dx, dy, ids } = dragging;
  dragging = null;
  noGuides();
  marquee.setAttribute("class", "marquee");
  if (!moved) return;
  if (kind === "marquee") {
    select(ids ?? []);
    return;
  }
  if (kind === "move") for (const f of fields) f.box = [round(f.box[0] + dx), round(f.box[1] + dy), f.box[2], f.box[3]];
  remember(before);
  merging = { key: "", time: 0 };
  changed();
  if (kind === "resize") announceSize(fields[0]);
  else if (kind === "turn") announce(t("says_turned", { field: titleOf(fields[0]), n: numbers.format(fields[0].rotate) }));
  else announcePlace(fields[0]);
}
function abandon() {
  if (!dragging) return;
  const { before } = dragging;
  dragging = null;
  noGuides();
  marquee.setAttribute("class", "marquee");
  ({ layout, name } = JSON.parse(before));
  draw();
  shape(chosen());
}
paper.addEventListener("pointerdown", begin);
paper.addEventListener("pointermove", move);
paper.addEventListener("pointerup", end);
paper.addEventListener("pointercancel", end);

// ---- Keyboard
paper.addEventListener("keydown", (e) => {
  if (isReal) return;
  const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[e.key];
  if (way && selected.size && !e.ctrlKey && !e.metaKey) {
    const n = e.shiftKey ? 10 : 1, fields = movable();
    if (!fields.length) announce(t("says_locked"));
    else if (e.altKey) {
      change(() => {
        for (const f of fields) {
          const [x, y, w, h] = f.box, more = way[0] || way[1];
          f.box = f.kind === "qr" ? [x, y, Math.max(12, w + more * n), Math.max(12, w + more * n)] : [x, y, Math.max(6, w + way[0] * n), Math.max(6, h + way[1] * n)];
        }
      }, "keys-size");
      shape(fields);
      announceSize(fields[0]);
    } else {
      change(() => { for (const f of fields) f.box = [round(f.box[0] + way[0] * n), round(f.box[1] + way[1] * n), f.box[2], f.box[3]]; }, "keys-move");
      announcePlace(fields[0]);
    }
  } else if (e.key === "Delete" || e.key === "Backspace") remove();
  else if (e.key === "Escape") {
    if (dragging) abandon();
    else if (selected.size) {
      select([]);
      paper.focus({ preventScroll: true });
      announce(t("says_none"));
    } else return;
  } else if ((e.key === " " || e.key === "Enter") && e.target.closest(".f")) {
    const { id } = e.target.closest(".f").dataset;
    if (e.shiftKey) {
      const ids = new Set(selected);
      ids.has(id) ? ids.delete(id) : ids.add(id);
      select([...ids]);
    } else {
      select([id]);
      if (e.key === "Enter") at("props").querySelector("textarea, input, select")?.focus();
    }
  } else return;
  e.preventDefault();
});
addEventListener("keydown", (e) => {
  if (!(e.ctrlKey || e.metaKey) || e.altKey) return;
  const key = e.key.toLowerCase(), typing = e.target.matches("input:not([type=color], [type=checkbox]), textarea, select");
  if (key === "+" || key === "=") setZoom(zoom * 1.25);
  else if (key === "-") setZoom(zoom / 1.25);
  else if (key === "0") fit();
  else if (key === "s") saveNow();
  else if (typing || isReal) return;
  else if (key === "z") e.shiftKey ? redo() : undo();
  else if (key === "y") redo();
  else if (key === "a" && paper.contains(e.target)) select(onPage().filter((f) => !hidden.has(f.id) && !locked.has(f.id)).map((f) => f.id));
  else if (key === "d" && selected.size) duplicate();
  else if (key === "c" && selected.size && !String(getSelection())) copy();
  else if (key === "x" && selected.size && paper.contains(e.target)) { copy(); remove(); } else if (key === "v") paste();
  else return;
  e.preventDefault();
});

// ---- Adding, copying and removing
const newID = (used = new Set(layout.fields.map((f) => f.id))) => {
  let n = used.size + 1;
  while (used.has(`f${n}`)) n++;
  return `f${n}`;
};
function insert(fields) {
  const used = new Set(layout.fields.map((f) => f.id));
  for (const f of fields) {
    f.id = newID(used);
    used.add(f.id);
    layout.fields.push(f);
  }
}
// free returns the box of a new field: the given box, or a box below or above it on the page. It chooses
// the box that overlaps the fewest fields.
function free([x, y, w, h]) {
  const others = onPage().map((f) => bounds([f])), places = [];
  for (let at = y; at + h <= size().height; at += h) places.push(at);
  for (let at = y - h; at >= 0; at -= h) places.push(at);
  const covered = places.map((at) => others.filter((o) => x < o[0] + o[2] && o[0] < x + w && at < o[1] + o[3] && o[1] < at + h).length);
  return [round(x), round(places[covered.indexOf(Math.min(...covered))]), round(w), round(h)];
}
function add(kind) {
  const like = chosen().find(isText) ?? layout.fields.find(isText), s = size();
  const side = Math.max(MIN_QR, Math.min(s.width, s.height) * .14), isCode = kind === "qr", picture = kind === "image" || kind === "logo" || kind === "signature";
  const [w, h] = isCode ? [side, side] : picture ? [Math.min(120, s.width * .25), Math.min(60, s.height * .2)] : [Math.min(s.width * .6, 320), kind === "name" ? 44 : 24];
  const f = { id: "", kind: { expiry: "date", institution: "text", logo: "image" }[kind] ?? kind, page, box: free([(s.width - w) / 2, (s.height - h) / 2, w, h]) };
  if (kind === "signature") Object.assign(f, { text: "{signatory:1}", align: "center", valign: "bottom" });
  else if (picture) Object.assign(f, { image: "logo", align: "center", valign: "middle" });
  else if (!isCode) {
    const text = { column: `{column:${t("column_name")}}`, text: t("new_text") }[kind] ?? `{${kind}}`, big = kind === "name" ? 32 : kind === "title" ? 20 : 14;
    Object.assign(f, { text, font: { ...like?.font ?? { family: data.families[0].name } }, size: big, min_size: Math.max(6, Math.round(big * .4)), lines: kind === "details" ? 3 : kind === "title" ? 2 : 1, align: "center", valign: "middle", color: like?.color ?? "#1a1a1a" });
  }
  change(() => insert([f]));
  shape([f]);
  select([f.id], { focus: true });
  if (kind === "image") at("picture")?.click();
}
function remove() {
  const fields = movable();
  if (!fields.length) return;
  const focused = paper.contains(document.activeElement) || at("props").contains(document.activeElement);
  change(() => { layout.fields = layout.fields.filter((f) => !fields.includes(f)); for (const f of fields) selected.delete(f.id); });
  if (focused) paper.focus({ preventScroll: true });
  announce(t("says_removed"));
}
const shelf = "certvault-fields";
function copy() {
  sessionStorage.setItem(shelf, JSON.stringify(chosen()));
  announce(t("says_copied", { n: numbers.format(selected.size) }));
}
function put(fields) {
  const s = size();
  const list = structuredClone(fields).filter((f) => f.kind !== "qr" || !layout.fields.some((other) => other.kind === "qr"));
  if (!list.length) return;
  for (const f of list) {
    f.page = page;
    f.box[0] = round(clamp(f.box[0] + 12, 0, Math.max(0, s.width - f.box[2])));
    f.box[1] = round(clamp(f.box[1] + 12, 0, Math.max(0, s.height - f.box[3])));
  }
  change(() => insert(list));
  shape(list);
  select(list.map((f) => f.id), { focus: true });
}
const duplicate = () => put(chosen());
function paste() {
  try {
    const list = JSON.parse(sessionStorage.getItem(shelf) ?? "[]");
    put(list);
    sessionStorage.setItem(shelf, JSON.stringify(list.map((f) => ({ ...f, box: [f.box[0] + 12, f.box[1] + 12, f.box[2], f.box[3]] }))));
  } catch {
    // Another version of this page stored the fields, or the browser does not store them.
  }
}

// ---- Aligning
function arrange(how) {
  const fields = movable(), s = size();
  if (!fields.length) return;
  const around = fields.length > 1 ? bounds(fields) : [0, 0, s.width, s.height];
  change(() => {
    if (how.startsWith("spread")) {
      const axis = how === "spread_x" ? 0 : 1, sorted = fields.map((f) => ({ f, b: bounds([f]) })).sort((a, b) => a.b[axis] - b.b[axis]);
      const gap = (around[axis + 2] - sorted.reduce((sum, one) => sum + one.b[axis + 2], 0)) / (sorted.length - 1);
      let next = around[axis];
      for (const { f, b } of sorted) {
        f.box[axis] = round(f.box[axis] + next - b[axis]);
        next += b[axis + 2] + gap;
      }
      return;
    }
    const first = fields[0];
    for (const f of fields) {
      const b = bounds([f]);
      if (how === "same_width" && f.kind !== "qr") f.box[2] = first.box[2];
      else if (how === "same_height" && f.kind !== "qr") f.box[3] = first.box[3];
      else {
        const [axis, share] = { edge_left: [0, 0], edge_center: [0, .5], edge_right: [0, 1], edge_top: [1, 0], edge_middle: [1, .5], edge_bottom: [1, 1] }[how] ?? [];
        if (axis !== undefined) f.box[axis] = round(f.box[axis] + around[axis] + share * (around[axis + 2] - b[axis + 2]) - b[axis]);
      }
    }
  });
  if (how.startsWith("same")) shape(fields);
  announce(t("says_arranged"));
}

// ---- The lists of kinds of fields, pages, fields and samples
at("kinds").append(...["name", "title", "date", "expiry", "reference", "details", "column", "institution", "text", "image", "logo", "signature", "qr"].map((kind) =>
  html("li", {}, html("button", { type: "button", class: "quiet", "data-add": kind, onclick: () => { if (kind !== "qr" || !layout.fields.some((f) => f.kind === "qr")) add(kind); else select([layout.fields.find((f) => f.kind === "qr").id], { focus: true }); } }, icon(kind), t(`add_${kind}`)))));
function setPage(n) {
  page = n;
  const s = size();
  paper.setAttribute("viewBox", `0 0 ${s.width} ${s.height}`);
  for (const [line, x2, y2] of [[guideX, 0, s.height], [guideY, s.width, 0]]) {
    line.setAttribute("x2", x2);
    line.setAttribute("y2", y2);
  }
  at("background").src = `${base}/page.png?page=${n}&v=${data.design}`;
  for (const b of at("pages")?.querySelectorAll("button") ?? []) b.setAttribute("aria-current", Number(b.dataset.page) === n);
  setZoom(zoom);
  if (isReal) real();
}
at("pages")?.append(...data.pages.map((s, i) => html("li", {}, html("button", {
  type: "button", class: "quiet", "data-page": i + 1, "aria-label": t("page", { n: numbers.format(i + 1) }), onclick: () => { select([], { quiet: true }); setPage(i + 1); draw(); },
}, html("img", { src: `${base}/page.png?page=${i + 1}&side=160&v=${data.design}`, alt: "", width: Math.round(72 * Math.min(1, s.width / s.height)), height: Math.round(72 * Math.min(1, s.height / s.width)), loading: "lazy" }), numbers.format(i + 1)))));
const toggle = (set, id) => {
  set.has(id) ? set.delete(id) : set.add(id);
  draw();
};
const listed = new Map();
function drawList() {
  const list = at("list"), fields = onPage();
  for (const [id, e] of listed) {
    if (!fields.some((f) => f.id === id)) {
      e.item.remove();
      listed.delete(id);
    }
  }
  fields.forEach((f, i) => {
    let e = listed.get(f.id);
    if (!e) {
      e = { name: html("bdi"), sign: html("span", { class: "sign", "aria-hidden": "true" }) };
      e.choose = html("button", {
        type: "button", class: "choose", "data-id": f.id, "aria-keyshortcuts": "Alt+ArrowUp Alt+ArrowDown",
        onclick: (event) => {
          if (event.shiftKey) {
            const ids = new Set(selected);
            ids.has(f.id) ? ids.delete(f.id) : ids.add(f.id);
            select([...ids]);
          } else select([f.id]);
        },
        onkeydown: (event) => {
          if (event.altKey && (event.key === "ArrowUp" || event.key === "ArrowDown")) {
            event.preventDefault();
            reorder(f.id, event.key === "ArrowUp" ? -1 : 1);
            e.choose.focus();
          } else if (event.key === "Delete" && selected.has(f.id)) remove();
        },
      }, e.sign, e.name);
      e.hide = html("button", { type: "button", class: "small-icon", onclick: () => toggle(hidden, f.id) });
      e.lock = html("button", { type: "button", class: "small-icon", onclick: () => toggle(locked, f.id) });
      e.item = html("li", {}, e.choose, e.hide, e.lock);
      listed.set(f.id, e);
    }
    if (list.children[i] !== e.item) list.insertBefore(e.item, list.children[i] ?? null);
    const title = titleOf(f);
    if (e.name.textContent !== title) e.name.textContent = title;
    if (e.icon !== iconOf(f)) e.sign.replaceChildren(icon(e.icon = iconOf(f)));
    e.choose.setAttribute("aria-current", selected.has(f.id));
    for (const [button, set, on, off, key] of [[e.hide, hidden, "hide", "show", "hide_field"], [e.lock, locked, "lock", "unlock", "lock_field"]]) {
      const state = set.has(f.id), label = t(key, { field: title });
      button.setAttribute("aria-pressed", state);
      button.setAttribute("aria-label", label);
      button.title = label;
      if (button.dataset.icon !== (state ? on : off)) {
        button.dataset.icon = state ? on : off;
        button.replaceChildren(icon(state ? on : off));
      }
    }
  });
  at("no-fields").hidden = fields.length > 0;
}
function reorder(id, way) {
  const fields = onPage(), i = fields.findIndex((f) => f.id === id), other = fields[i + way];
  if (!other) return;
  change(() => {
    const [a, b] = [layout.fields.indexOf(fields[i]), layout.fields.indexOf(other)];
    [layout.fields[a], layout.fields[b]] = [layout.fields[b], layout.fields[a]];
  }, "order");
  announce(t("says_order", { field: titleOf(find(id)), n: numbers.format(i + way + 1), of: numbers.format(fields.length) }));
}
function drawProblems() {
  const all = [...layout.fields.flatMap((f) => problemsOf(f).map((p) => ({ ...p, field: f.id }))), ...problems.filter((p) => !p.field)];
  const button = at("first-problem");
  const first = all[0];
  const text = first ? (all.length > 1 ? t("problems_many", { first: labelled(first), n: numbers.format(all.length - 1) }) : labelled(first)) : t("all_fits");
  if (button.textContent !== text) button.textContent = button.title = text;
  button.disabled = !first;
  button.onclick = () => { first.field ? select([first.field]) : select([]); at("props").querySelector("[aria-invalid=true], textarea, input, button")?.focus(); };
  for (const [id, e] of listed) e.choose.classList.toggle("bad", all.some((p) => p.field === id));
  for (const f of onPage()) groups.get(f.id)?.node.classList.toggle("bad", all.some((p) => p.field === f.id));
  const list = at("todo");
  if (!list) return;
  // A problem of the sample does not prevent publishing, so it is not in this list.
  const items = (found) => found.map((p) => html("li", {}, p.field ? html("button", { type: "button", class: "link", onclick: () => select([p.field], { focus: true }) }, labelled(p)) : labelled(p)));
  list.replaceChildren(...items(problems));
  at("todo-part").hidden = !problems.length;
  at("worth").replaceChildren(...items(warnings));
  at("worth-part").hidden = !warnings.length;
}
const labelled = (p) => (p.field && find(p.field) ? t("problem_of", { field: titleOf(find(p.field)), problem: p.text }) : p.text);
function setSample(name, text = "", listed = null) {
  sample = name;
  own = text;
  row = listed;
  if (!row) at("rows").value = "";
  for (const b of at("samples").children) {
    const on = !own && !row && b.dataset.sample === sample;
    b.setAttribute("aria-checked", on);
    b.tabIndex = on || (own || row) && b === at("samples").firstChild ? 0 : -1;
  }
  shape();
  if (isReal) real();
}
at("samples").append(...data.samples.map((s) => html("button", {
  type: "button", role: "radio", class: "chip", lang: s.language || false, dir: "auto", "data-sample": s.name, "aria-checked": "false", title: s.label, "aria-label": `${s.label}: ${s.person}`,
  onclick: () => { at("own").value = ""; setSample(s.name); },
  onkeydown: (e) => {
    const way = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
    if (!way) return;
    e.preventDefault();
    const all = [...at("samples").children], next = all[(all.indexOf(e.currentTarget) + way + all.length) % all.length];
    next.focus();
    next.click();
  },
}, ["long", "missing"].includes(s.name) ? s.label : s.person)));
let ownTimer = 0;
at("own").addEventListener("input", () => {
  clearTimeout(ownTimer);
  ownTimer = setTimeout(() => setSample(data.samples[0].name, at("own").value.trim()), 250);
});

// ---- The rows of an uploaded list, which the vault does not store
const dialog = at("list-dialog");
at("own-list").onclick = () => dialog.showModal();
at("list-close").onclick = () => dialog.close();
at("list-form").addEventListener("submit", async (e) => {
  e.preventDefault();
  const problem = at("list-problem"), submit = e.submitter ?? at("list-form").querySelector("[type=submit]");
  const [file] = at("list-file").files, form = new FormData();
  form.append("list", file ?? new Blob([at("list-text").value]), file?.name ?? "list.csv");
  submit.disabled = true;
  problem.hidden = true;
  try {
    await saveNow(); // the vault reads the columns that the saved fields use
    const response = await fetch(`${base}/list`, { method: "POST", headers: { Accept: "application/json" }, body: form });
    const answer = isJSON(response) ? await response.json() : {};
    if (response.ok && answer.rows) {
      showRows(answer);
      dialog.close();
      at("rows").focus();
    } else problem.textContent = answer.message ?? t("upload_failed");
    problem.hidden = response.ok;
  } catch {
    problem.textContent = t("offline");
    problem.hidden = false;
  }
  submit.disabled = false;
});
function showRows({ rows, longest }) {
  const menu = at("rows");
  menu.replaceChildren(html("option", { value: "" }, t("list_none")), ...rows.map((one, i) => html("option", { value: i }, i === longest ? t("list_longest", { name: one.name }) : one.name || t("list_unnamed", { n: numbers.format(i + 1) }))));
  menu.onchange = () => {
    at("own").value = "";
    setSample(menu.value === "" ? data.sample : sample, "", menu.value === "" ? null : rows[Number(menu.value)]);
  };
  at("rows-part").hidden = false;
  menu.value = longest;
  menu.onchange();
}

// ---- Properties
let shown = "";
const controls = [];

// control returns a control for a value, with its label and an element for its problem.
function control(label, property, node, read, more = {}) {
  const id = `p-${controls.length}`, problem = html("p", { class: "problem", id: `${id}-problem`, hidden: true });
  node.id = more.id ?? id;
  controls.push({ node, read, property, problem });
  return html("div", { class: `prop${more.all ? " all" : ""}` }, html("label", { for: node.id }, label), node, ...(more.after ?? []), problem);
}
const set = (key, value, test = () => true) => {
  const fields = chosen().filter(test);
  change(() => { for (const f of fields) f[key] = value; }, `set-${key}`);
  shape(fields);
};
function number(label, property, read, write, attributes = {}, more = {}) {
  const node = html("input", { type: "number", inputmode: "decimal", ...attributes, onchange: () => {
    const v = node.valueAsNumber;
    if (Number.isFinite(v)) {
      change(() => write(v), `number-${property}-${label}`);
      shape(chosen());
    }
    syncProps(true);
  } });
  return control(label, property, node, () => String(Math.round(read() * 100) / 100), more);
}
const segment = (key, options, read, label, write) => {
  const group = html("div", { class: "seg", role: "group", "aria-label": label }, ...options.map(([value, shape, text]) => html("button", { type: "button", "aria-label": text, title: text, onclick: () => { write(value); syncProps(); } }, icon(shape))));
  controls.push({ read, sync: () => [...group.children].forEach((b, i) => b.setAttribute("aria-pressed", options[i][0] === read())) });
  return group;
};
const part = (title, ...children) => html("fieldset", {}, html("legend", {}, title), html("div", { class: "grid" }, ...children));
const choices = (list, value) => list.map(([v, label]) => html("option", { value: v, selected: v === value }, label));
const names = (() => {
  try {
    return new Intl.DisplayNames([document.documentElement.lang], { type: "language" });
  } catch {
    return { of: (tag) => tag };
  }
})();
const languages = (current, none) => choices([["", none], ...[...new Set([...data.languages, current].filter(Boolean))].map((tag) => [tag, names.of(tag)]).sort((a, b) => a[1].localeCompare(b[1]))], current);
const button = (text, onclick, kind = "quiet small") => html("button", { type: "button", class: kind, onclick }, text);

function drawProps() {
  const form = at("props"), key = [...selected].join(" ") || `page ${page}`;
  if (shown === key) {
    syncProps();
    return;
  }
  shown = key;
  controls.length = 0;
  const fields = chosen();
  form.replaceChildren(...(fields.length ? fieldProps(fields) : templateProps()));
  syncProps();
  if (!fields.length) drawProblems();
}
function templateProps() {
  const text = (key) => (e) => { const { value } = e.currentTarget; change(() => { layout[key] = value; }, `doc-${key}`); if (key !== "alt") shape(); };
  return [
    html("section", { id: "todo-part", class: "todo", hidden: true }, html("h2", { tabindex: "-1", id: "todo-title" }, t("before_publishing")), html("ul", { id: "todo" })),
    html("section", { id: "worth-part", class: "todo", hidden: true }, html("h2", {}, t("worth_checking")), html("ul", { id: "worth" })),
    part(t("template"),
      control(t("template_name"), "name", html("input", { type: "text", maxlength: "100", oninput: (e) => { const { value } = e.currentTarget; change(() => { name = value; }, "doc-name"); at("heading").textContent = value || t("template"); } }), () => name, { all: true }),
      control(t("default_title"), "title", html("input", { type: "text", maxlength: "255", oninput: text("title") }), () => layout.title ?? "", { all: true, after: [html("p", { class: "hint" }, t("default_title_hint"))] }),
      control(t("language"), "language", html("select", { onchange: text("language") }, ...languages(layout.language ?? "", t("language_none"))), () => layout.language ?? "", { all: true }),
      control(t("alt"), "alt", html("textarea", { rows: "3", maxlength: "1000", oninput: text("alt") }), () => layout.alt ?? "", { all: true, after: [html("p", { class: "hint" }, t("alt_hint"))] }),
      html("p", { class: "all" }, html("a", { class: "button quiet small", href: `${base}/replace`, onclick: async (e) => {
        if (!unsaved) return;
        e.preventDefault();
        if (await saveNow()) location.href = `${base}/replace`;
      } }, t("replace")))),
    html("details", { class: "keyboard" }, html("summary", {}, t("keys")), html("dl", {}, ...Object.entries({
      tab: t("key_tab"), arrows: t("key_arrows"), alt: `Alt + ${t("key_arrows")}`, select: `${t("key_shift")} + ${t("key_click")}`, duplicate: `${t("key_ctrl")} + D`, copy: `${t("key_ctrl")} + C, V`,
      undo: `${t("key_ctrl")} + Z, Y`, snap: `${t("key_ctrl")} + ${t("key_drag")}`, delete: t("key_delete"), zoom: `${t("key_ctrl")} + +, −, 0`,
    }).flatMap(([key, name]) => [html("dt", {}, html("kbd", {}, name)), html("dd", {}, t(`key_${key}_text`))]))),
  ];
}
function boxPart(f) {
  const edge = (i) => [() => chosen()[0].box[i] / MM, (v) => { for (const one of movable()) { one.box = one.box.map((old, j) => (j === i || one.kind === "qr" && i > 1 && j > 1 ? round(Math.max(i > 1 ? 6 : -1e4, v * MM)) : old)); } }];
  const step = { step: "0.1" };
  return part(t("position"),
    number(t("left"), "box", ...edge(0), step), number(t("top"), "box", ...edge(1), step), number(t("width"), "box", ...edge(2), { ...step, min: "2" }), number(t("height"), "box", ...edge(3), { ...step, min: "2" }),
    ...(f.kind === "qr" ? [] : [number(t("rotation"), "rotate", () => chosen()[0].rotate ?? 0, (v) => { for (const one of movable()) if (one.kind !== "qr") one.rotate = ((v + 180) % 360 + 360) % 360 - 180; }, { step: "1" })]),
    ...(data.pages.length > 1 ? [control(t("on_page"), "page", html("select", { onchange: (e) => { const n = Number(e.currentTarget.value); change(() => { for (const one of movable()) one.page = n; }); setPage(n); draw(); } }, ...data.pages.map((_, i) => html("option", { value: i + 1 }, numbers.format(i + 1)))), () => String(f.page))] : []));
}
function arrangePart(many) {
  const one = (how) => html("button", { type: "button", "aria-label": t(`do_${how}`), title: t(`do_${how}`), onclick: () => arrange(how) }, icon(how));
  const row = (...list) => html("div", { class: "seg all", role: "group", "aria-label": t("arrange") }, ...list.map(one));
  const parts = [row("edge_left", "edge_center", "edge_right", "edge_top", "edge_middle", "edge_bottom")];
  if (many) parts.push(row(...(selected.size > 2 ? ["spread_x", "spread_y"] : []), "same_width", "same_height"));
  return part(many ? t("arrange_many") : t("arrange"), ...parts);
}
function textPart(f) {
  const area = html("textarea", { rows: "3", maxlength: "2000", dir: "auto", spellcheck: "false", oninput: () => set("text", area.value) });
  const chip = (text) => html("button", { type: "button", class: "chip", onclick: () => {
    area.setRangeText(text, area.selectionStart, area.selectionEnd, "end");
    if (text.startsWith("{column")) area.setSelectionRange(area.selectionEnd - text.length + 8, area.selectionEnd - 1);
    set("text", area.value);
    area.focus();
  } }, text.startsWith("{column") ? t("placeholder_column") : html("code", { dir: "ltr" }, text));
  const isDate = /\{(date|expiry)\}/.test(f.text ?? "");
  return part(titleOf(f),
    control(t("text"), "text", area, () => chosen()[0]?.text ?? "", { all: true, after: [html("div", { class: "chips", role: "group", "aria-label": t("placeholders") }, ...["{name}", "{title}", "{date}", "{expiry}", "{reference}", "{details}", "{institution}", `{column:${t("column_name")}}`].map(chip))] }),
    html("p", { class: "fits all", id: "fits" }),
    ...(isDate ? [control(t("date_format"), "format", html("select", { onchange: (e) => set("format", e.currentTarget.value) }, ...choices([["long", t("format_long")], ["month", t("format_month")], ["year", t("format_year")], ["iso", t("format_iso")]])), () => f.format || "long", { all: true })] : []),
    requiredControl());
}
function requiredControl() {
  const box = html("input", { type: "checkbox", id: "p-required", onchange: () => set("required", box.checked, isText) });
  controls.push({ sync: () => { box.checked = Boolean(chosen()[0]?.required); } });
  return html("div", { class: "choice all" }, box, html("label", { for: "p-required" }, t("required")));
}
function fontPart() {
  const first = () => chosen().find(isText);
  const family = (f) => data.families.find((one) => one.name === f.font?.family);
  const setFont = (more) => { const fields = chosen().filter(isText); change(() => { for (const f of fields) f.font = { ...f.font, ...more }; }, "font"); shape(fields); };
  const kinds = new Map();
  for (const one of data.families) kinds.set(one.group, [...kinds.get(one.group) ?? [], one]);
  const current = first().font?.family ?? "";
  const menu = html("select", { onchange: () => {
    const next = data.families.find((one) => one.name === menu.value), { weight = 400, italic = false } = first().font ?? {};
    const face = [...next?.faces ?? []].sort((a, b) => Math.abs(a.weight - weight) + 1000 * (a.italic !== italic) - Math.abs(b.weight - weight) - 1000 * (b.italic !== italic))[0] ?? { weight: 400, italic: false };
    setFont({ family: menu.value, weight: face.weight, italic: face.italic });
    shown = "";
    drawProps();
    at("p-family")?.focus();
  } }, ...[...kinds].map(([label, list]) => html("optgroup", { label }, ...list.map((one) => html("option", { value: one.name }, one.name)))), ...(family(first()) ? [] : [html("option", { value: current }, current)]));
  const faces = family(first())?.faces ?? [];
  const style = html("select", { onchange: () => { const [weight, slope] = style.value.split(" "); setFont({ weight: Number(weight), italic: slope === "i" }); } },
    ...faces.map((f) => html("option", { value: `${f.weight}${f.italic ? " i" : ""}` }, t(f.italic ? "weight_italic" : "weight", { weight: t(`weight_${f.weight}`) }))));
  const color = html("input", { type: "color", oninput: () => set("color", color.value, isText) });
  const num = (label, key, none, attributes, unit = 1) => number(label, key, () => (first()[key] || none) * unit, (v) => { for (const f of chosen().filter(isText)) f[key] = round(v / unit); }, attributes);
  return part(t("type"),
    control(t("font"), "font", menu, () => first().font?.family ?? "", { all: true, id: "p-family" }),
    control(t("font_style"), "font", style, () => `${first().font?.weight || 400}${first().font?.italic ? " i" : ""}`),
    control(t("color"), "color", color, () => first().color || "#000000"),
    num(t("size"), "size", 12, { step: "0.5", min: "1", max: "1000" }), num(t("min_size"), "min_size", first().size, { step: "0.5", min: "1", max: "1000" }),
    num(t("lines"), "lines", 1, { step: "1", min: "1", max: "20" }), num(t("leading"), "leading", 1.2, { step: "0.05", min: "0.5", max: "5" }),
    num(t("tracking"), "tracking", 0, { step: "5", min: "-250", max: "1000" }),
    control(t("case"), "case", html("select", { onchange: (e) => set("case", e.currentTarget.value, isText) }, ...choices([["none", t("case_none")], ["upper", t("case_upper")], ["lower", t("case_lower")]])), () => first().case || "none"),
    alignment(),
    control(t("language"), "language", html("select", { onchange: (e) => set("language", e.currentTarget.value, isText) }, ...languages(first().language ?? "", t("language_template"))), () => first().language ?? "", { all: true }));
}
function alignment() {
  const first = () => chosen().find((f) => f.kind !== "qr");
  return html("div", { class: "pair all" },
    segment("align", [["left", "left", t("align_left")], ["center", "center", t("align_center")], ["right", "right", t("align_right")]], () => first()?.align || "left", t("align"), (v) => set("align", v, (f) => f.kind !== "qr")),
    segment("valign", [["top", "top", t("valign_top")], ["middle", "middle", t("valign_middle")], ["bottom", "bottom", t("valign_bottom")]], () => first()?.valign || "middle", t("valign"), (v) => set("valign", v, (f) => f.kind !== "qr")));
}
function picturePart(f) {
  const file = html("input", { type: "file", accept: ".png,.jpg,.jpeg,image/png,image/jpeg", onchange: async () => {
    if (!file.files[0]) return;
    const form = new FormData();
    form.append("file", file.files[0]);
    note.textContent = t("uploading");
    try {
      const response = await fetch(`${base}/pictures`, { method: "POST", headers: { Accept: "application/json" }, body: form });
      const answer = isJSON(response) ? await response.json() : {};
      note.textContent = response.ok ? "" : answer.message ?? t("upload_failed");
      if (response.ok && answer.id) set("image", answer.id, isPicture);
    } catch {
      note.textContent = t("offline");
    }
    file.value = "";
  } });
  const note = html("p", { class: "hint", role: "status" });
  return part(titleOf(f),
    html("p", { class: "all" }, button(t("use_logo"), () => set("image", "logo", isPicture)), data.logo ? "" : html("span", { class: "hint" }, ` ${t("no_logo")}`)),
    control(t("picture"), "image", file, () => "", { all: true, id: "picture", after: [note] }), alignment());
}
function signaturePart(f) {
  return part(titleOf(f), control(t("signatory"), "text", html("select", { onchange: (e) => set("text", e.currentTarget.value, (one) => one.kind === "signature") }, ...choices([1, 2, 3, 4, 5, 6, 7, 8].map((n) => [`{signatory:${n}}`, numbers.format(n)]))), () => find(f.id)?.text, { all: true, after: [html("p", { class: "hint" }, t("signatory_hint"))] }), alignment());
}
function fieldProps(fields) {
  const [f] = fields, many = fields.length > 1, parts = [];
  if (many) parts.push(html("h2", { class: "count-title" }, t("says_many", { n: numbers.format(fields.length) })));
  if (!many) {
    if (f.kind === "qr") parts.push(part(titleOf(f), html("p", { class: "hint all" }, t("qr_hint")), html("p", { class: "fits all", id: "fits" })));
    else parts.push(f.kind === "signature" ? signaturePart(f) : isPicture(f) ? picturePart(f) : textPart(f));
  }
  if (fields.some(isText)) parts.push(fontPart());
  parts.push(boxPart(f), arrangePart(many));
  if (!many) {
    const order = (way) => () => reorder(f.id, way);
    parts.push(part(t("field"), control(t("label"), "label", html("input", { type: "text", maxlength: "100", placeholder: t(`kind_${f.kind}`), oninput: (e) => { const { value } = e.currentTarget; change(() => { find(f.id).label = value; }, "label"); } }), () => find(f.id)?.label ?? "", { all: true }),
      html("div", { class: "actions all" }, button(t("move_up"), order(-1)), button(t("move_down"), order(1)))));
  }
  parts.push(html("div", { class: "actions last" }, ...(fields.every((one) => one.kind === "qr") ? [] : [button(t("duplicate"), duplicate)]), button(t(many ? "remove_many" : "remove"), remove, "quiet small danger")));
  return parts;
}

// syncProps shows the current values in the controls. If all is false, it does not change the focused
// control.
function syncProps(all = false) {
  const [f] = chosen();
  if (dragging) return;
  const found = f ? problemsOf(f) : [];
  for (const c of controls) {
    c.sync?.();
    if (!c.node) continue;
    if (c.node.type !== "file" && (all || document.activeElement !== c.node)) {
      const value = c.read();
      if (c.node.value !== value) c.node.value = value;
    }
    const bad = found.filter((p) => propertyOf(p) === c.property || p.code === "field_invalid" && c.property === "box" && p.detail === "box");
    c.node.setAttribute("aria-invalid", bad.length > 0);
    c.problem.hidden = !bad.length || controls.find((other) => other.problem && other.property === c.property) !== c;
    if (bad.length) {
      c.problem.textContent = bad.map((p) => p.text).join(" ");
      c.node.setAttribute("aria-describedby", c.problem.id);
    } else c.node.removeAttribute("aria-describedby");
  }
  const fits = at("fits");
  if (!fits || !f) return;
  const s = shapes.get(f.id), other = found.filter((p) => !controls.some((c) => c.property && c.property === propertyOf(p)));
  fits.classList.toggle("bad", other.length > 0);
  const text = other.length ? other.map((p) => p.text).join(" ") : !s || !isText(f) ? "" : s.size < f.size - .05 ? t(s.lines > 1 ? "fits_lines" : "fits_smaller", { size: numbers.format(s.size), full: numbers.format(f.size), lines: numbers.format(s.lines) }) : s.text ? t("fits", { size: numbers.format(f.size) }) : t("fits_empty");
  if (fits.textContent !== text) fits.textContent = text;
  fits.hidden = !text;
}

// ---- Zoom and rulers
const scroll = at("scroll");
// setZoom sets the zoom. The center of the view stays the same.
function setZoom(z) {
  zoom = clamp(z, .1, 6);
  const s = size(), sheet = at("sheet"), view = scroll.getBoundingClientRect(), before = sheet.getBoundingClientRect();
  const middle = [view.left + view.width / 2, view.top + view.height / 2];
  const part = [(middle[0] - before.left) / before.width, (middle[1] - before.top) / before.height];
  sheet.style.width = `${s.width * zoom}px`; // the Content-Security-Policy forbids style attributes, but not this
  sheet.style.height = `${s.height * zoom}px`;
  const after = sheet.getBoundingClientRect();
  scroll.scrollBy(after.left + part[0] * after.width - middle[0], after.top + part[1] * after.height - middle[1]);
  at("zoom").textContent = new Intl.NumberFormat(document.documentElement.lang, { style: "percent" }).format(zoom * .75);
  drawTop();
  drawRulers();
}
function fit() {
  const s = size();
  setZoom(Math.min((scroll.clientWidth - 72) / s.width, (scroll.clientHeight - 72) / s.height));
}
let ruling = 0;
const drawRulers = () => { ruling ||= requestAnimationFrame(rule); };
function rule() {
  ruling = 0;
  const style = getComputedStyle(scroll), around = scroll.getBoundingClientRect(), sheet = at("sheet").getBoundingClientRect(), ratio = devicePixelRatio || 1;
  const step = [1, 2, 5, 10, 20, 50, 100].find((n) => n * MM * zoom >= 5) ?? 100, large = step * (step === 1 || step === 10 || step === 100 ? 10 : 5);
  const fields = chosen().filter((f) => f.page === page), mark = fields.length ? bounds(fields) : null;
  for (const [id, axis] of [["ruler-x", 0], ["ruler-y", 1]]) {
    const canvas = at(id), r = canvas.getBoundingClientRect(), length = axis ? r.height : r.width, depth = axis ? r.width : r.height;
    if (!length) continue;
    canvas.width = Math.round(r.width * ratio);
    canvas.height = Math.round(r.height * ratio);
    const c = canvas.getContext("2d"), zero = axis ? sheet.top - around.top : sheet.left - around.left;
    c.scale(ratio, ratio);
    if (mark) {
      c.fillStyle = style.getPropertyValue("--mark");
      const from = zero + mark[axis] * zoom, extent = mark[axis + 2] * zoom;
      axis ? c.fillRect(0, from, depth, extent) : c.fillRect(from, 0, extent, depth);
    }
    c.fillStyle = c.strokeStyle = style.getPropertyValue("--tick");
    c.font = "9px system-ui, sans-serif";
    c.beginPath();
    for (let n = Math.floor(-zero / (MM * zoom) / step) * step; zero + n * MM * zoom < length; n += step) {
      const p = Math.round(zero + n * MM * zoom) + .5, tick = n % large === 0 ? depth : 5;
      axis ? (c.moveTo(depth - tick, p), c.lineTo(depth, p)) : (c.moveTo(p, depth - tick), c.lineTo(p, depth));
      if (n % large) continue;
      if (axis) {
        c.save();
        c.translate(8, p + 2);
        c.rotate(Math.PI / 2);
        c.fillText(n, 0, 0);
        c.restore();
      } else c.fillText(n, p + 2, 8);
    }
    c.stroke();
  }
}
at("zoom-in").onclick = () => setZoom(zoom * 1.25);
at("zoom-out").onclick = () => setZoom(zoom / 1.25);
at("fit").onclick = fit;
at("undo").onclick = undo;
at("redo").onclick = redo;
scroll.addEventListener("scroll", drawRulers, { passive: true });
scroll.addEventListener("wheel", (e) => {
  if (!e.ctrlKey) return;
  e.preventDefault();
  setZoom(zoom * Math.exp(-e.deltaY / 400));
}, { passive: false });
let wide = innerWidth;
addEventListener("resize", () => { if (innerWidth !== wide) fit(); else drawRulers(); wide = innerWidth; });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawRulers);

// ---- The real PDF
let drawing = null;
async function real() {
  drawing?.abort();
  drawing = new AbortController();
  const canvas = at("real"), note = at("real-note");
  note.textContent = t("drawing");
  try {
    const response = await post(`/draw.png?page=${page}`, { layout, sample, values: values() }, drawing.signal);
    if (!response.ok) {
      const answer = isJSON(response) ? await response.json() : {};
      note.textContent = answer.problems?.map(labelled).join(" ") || answer.message || t("draw_failed");
      return;
    }
    const image = await createImageBitmap(await response.blob()); // the Content-Security-Policy allows no blob: URL
    canvas.width = image.width;
    canvas.height = image.height;
    canvas.getContext("2d").drawImage(image, 0, 0);
    canvas.hidden = false;
    note.textContent = "";
  } catch (error) {
    if (error.name !== "AbortError") note.textContent = t("offline");
  }
}
function view(to) {
  isReal = to;
  at("view-design").setAttribute("aria-pressed", !to);
  at("view-real").setAttribute("aria-pressed", to);
  at("sheet").classList.toggle("is-real", to);
  at("real").hidden = true;
  at("real-note").textContent = "";
  drawTop();
  if (to) real();
}
at("view-design").onclick = () => view(false);
at("view-real").onclick = () => view(true);

// ---- Publishing
at("reload").onclick = () => {
  removeEventListener("beforeunload", leave);
  location.reload();
};
at("props").addEventListener("submit", (e) => e.preventDefault());
at("publishing").addEventListener("submit", async (e) => {
  e.preventDefault();
  const submit = at("publish");
  submit.disabled = true;
  try {
    if (!(await saveNow())) return;
    says("saved", t("publishing"));
    const response = await post("/publish", { revision });
    const answer = isJSON(response) ? await response.json() : {};
    if (response.ok && answer.url) {
      location.href = answer.url;
      return;
    }
    says("saved", t("saved"));
    if (response.status === 409) {
      stopped = true;
      at("conflict").hidden = false;
      at("reload").focus();
    } else if (answer.problems) {
      ({ problems } = answer);
      shown = "";
      select([], { quiet: true });
      at("todo-title")?.focus();
      announce(t("not_published"));
    } else says("saved", answer.message ?? t("publish_failed"), true);
  } catch {
    says("saved", t("offline"), true);
  } finally {
    submit.disabled = false;
  }
});

at("designer").hidden = false;
setPage(1);
setSample(sample);
fit();
draw();
const wanted = new URLSearchParams(location.search).get("field");
if (wanted && find(wanted)) select([wanted], { focus: true });
at("background").addEventListener("error", () => { says("saved", t("no_background"), true); });
