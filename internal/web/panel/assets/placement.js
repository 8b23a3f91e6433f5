// The control for the position of a stamp. The vault draws a picture of the stamped page for each
// choice. A person can also move and resize the stamp on the page. Meanwhile, the page without a stamp
// is shown with a copy of the stamp from the last picture.

const step = 0.005;
const largeStep = 0.05;
const minWidth = 0.04;
const onPage = ["auto", "exact", "annotation", "top-left", "top-right", "bottom-left", "bottom-right"];

export function start(area) {
  const stage = area.querySelector(".stage");
  const says = area.querySelector(".says");
  const exact = area.querySelector("#place-exact");
  const field = (name) => area.querySelector(`[name=${name}]`);
  const canvas = Object.assign(document.createElement("canvas"), { role: "img", ariaLabel: stage.dataset.alt });
  const context = canvas.getContext("2d");
  const frame = Object.assign(document.createElement("button"), { type: "button", className: "frame", hidden: true });
  const handle = Object.assign(document.createElement("span"), { className: "handle" });
  frame.append(handle);
  // pictures has, by page number, the bitmap of the page without a stamp, and a canvas with red stripes
  // where the page has content. last is the last stamped page, with the box of the stamp.
  const pictures = new Map();
  let last = null;
  let request = null;
  let timer = 0;
  // moving is the box of the moved stamp until a picture shows the stamp there, or null. dragging reports
  // whether a pointer is moving or resizing the stamp.
  let moving = null;
  let dragging = false;

  for (const button of area.querySelectorAll("[data-show]")) button.hidden = true;
  // texts are the controls for the texts that an extra page shows.
  const texts = ["full_name", "certificate_title", "title", "issue_date"].map((name) => area.closest("form")?.elements[name]).filter(Boolean);

  const query = () => {
    const q = new URLSearchParams();
    for (const name of ["placement", "corner", "placement_page", "default_page", "default_mode", "x", "y", "width", "height"]) {
      const control = area.querySelector(`[name=${name}]:checked`) ?? field(name);
      if (control && (control.type !== "radio" || control.checked)) q.set(name, control.value);
    }
    if ("row" in area.dataset) q.set("row", "1");
    for (const [name, value] of [["full_name", area.dataset.fullName], ["title", area.dataset.title], ["issue_date", area.dataset.issueDate]]) if (value) q.set(name, value);
    for (const control of texts) {
      const name = control.name.replace("certificate_", "");
      if (!q.has(name) || control.value !== control.defaultValue) q.set(name, control.value);
    }
    return q;
  };
  const read = async (response) => {
    if (!response.ok) throw new Error(`status ${response.status}`);
    return [await createImageBitmap(await response.blob()), response.headers];
  };
  const load = async (name, q) => read(await fetch(`${area.dataset.placing}/${name}.png?${q}`));
  // The texts are sent in the body, because servers and proxies may log URLs.
  const stamp = async (body, signal) => read(await fetch(`${area.dataset.placing}/stamped.png`, { method: "POST", body, signal }));
  const chosen = () => area.querySelector("[name=placement]:checked")?.value;
  const typed = () => ["x", "y", "width", "height"].map((name) => field(name).value / 100);

  // show draws the last picture or, if the stamp was moved since, the plain page with the moved stamp.
  const show = () => {
    if (!last) return;
    const page = pictures.get(last.page);
    const box = moving ?? (exact?.checked ? typed() : last.box);
    const drawn = moving && page ? page.plain : last.bitmap;
    canvas.width = drawn.width;
    canvas.height = drawn.height;
    context.drawImage(drawn, 0, 0);
    const [x, y, w, h] = [box[0] * drawn.width, box[1] * drawn.height, box[2] * drawn.width, box[3] * drawn.height];
    if (moving && page) {
      const [sx, sy, sw, sh] = last.box.map((part, i) => part * (i % 2 ? last.bitmap.height : last.bitmap.width));
      const scale = Math.min(w / sw, h / sh);
      context.drawImage(last.bitmap, sx, sy, sw, sh, x + (w - sw * scale) / 2, y + (h - sh * scale) / 2, sw * scale, sh * scale);
    }
    frame.hidden = !exact || !onPage.includes(last.mode);
    if (frame.hidden) return;
    if (page && (moving || exact.checked)) {
      context.save();
      context.beginPath();
      context.rect(x, y, w, h);
      context.clip();
      context.drawImage(page.hatch, 0, 0, drawn.width, drawn.height);
      context.restore();
    }
    const percent = (n) => `${100 * n}%`;
    Object.assign(frame.style, { left: percent(box[0]), top: percent(box[1]), width: percent(box[2]), height: percent(box[3]) });
    frame.ariaLabel = area.dataset.frame.replace("{x}", Math.round(100 * box[0])).replace("{y}", Math.round(100 * box[1]));
  };

  const message = () => {
    const place = area.dataset[`at${last.mode.replace(/(^|-)./g, (s) => s.at(-1).toUpperCase())}`] ?? last.mode;
    says.classList.toggle("problem", false);
    if (last.notices.includes("covers_content")) {
      says.textContent = area.dataset.covers;
      says.classList.add("problem");
    } else if (last.notices.some((code) => ["placed_in_strip", "placed_on_appended_page", "placed_elsewhere", "cover"].includes(code))) {
      says.textContent = area.dataset.moved.replace("{place}", place);
    } else says.textContent = area.dataset.shown.replace("{page}", last.page).replace("{place}", place);
  };

  // refresh requests and shows the picture of the chosen placement.
  const refresh = async () => {
    clearTimeout(timer);
    timer = 0;
    request?.abort();
    const own = request = new AbortController();
    const slow = setTimeout(() => { says.textContent = area.dataset.drawing; }, 400);
    try {
      const [bitmap, headers] = await stamp(query(), own.signal);
      clearTimeout(slow);
      const [x0, y0, x1, y1] = headers.get("Stamp-Box").split(",").map(Number);
      last = {
        bitmap, box: [x0, y0, x1 - x0, y1 - y0], mode: headers.get("Stamp-Placement") || "auto", page: Number(headers.get("Stamp-Page")),
        notices: (headers.get("Stamp-Notice") ?? "").split(", "),
      };
      if (!dragging && !timer) moving = null;
      show();
      message();
      if (!frame.hidden) await loadPage(last.page);
    } catch {
      if (own.signal.aborted) return;
      says.textContent = area.dataset.failed;
      says.classList.add("problem");
    } finally {
      clearTimeout(slow);
    }
  };

  // loadPage loads a page without a stamp, and the picture of its content for the stripes.
  const loadPage = async (number) => {
    if (pictures.has(number)) return;
    const q = new URLSearchParams({ placement_page: number });
    const [[plain], [ink]] = await Promise.all([load("page", q), load("ink", q)]);
    pictures.set(number, { plain, hatch: hatched(ink, plain) });
    show();
  };

  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(refresh, 250);
  };

  // place selects the custom position and sets it to a box, which it limits to the page.
  const place = (box) => {
    const w = Math.min(1, Math.max(minWidth, box[2]));
    const h = Math.min(1, Math.max(box[3] * w / box[2], 0.01));
    const x = Math.min(1 - w, Math.max(0, box[0]));
    const y = Math.min(1 - h, Math.max(0, box[1]));
    moving = [x, y, w, h];
    for (const [i, name] of ["x", "y", "width", "height"].entries()) field(name).value = (100 * moving[i]).toFixed(2);
    exact.checked = true;
    show();
    later();
  };
  const now = () => moving ?? (exact.checked ? typed() : last.box);

  const drag = (event) => {
    if (event.button || !last) return;
    event.preventDefault();
    frame.focus();
    const sheet = canvas.getBoundingClientRect();
    const begin = now();
    const resize = event.target === handle;
    dragging = true;
    const moved = (to) => {
      const dx = (to.clientX - event.clientX) / sheet.width;
      const dy = (to.clientY - event.clientY) / sheet.height;
      if (!moving && Math.abs(to.clientX - event.clientX) + Math.abs(to.clientY - event.clientY) < 3) return;
      if (resize) {
        const most = Math.min((1 - begin[0]) / begin[2], (1 - begin[1]) / begin[3]);
        const scale = Math.min(most, Math.max(1 + dx / begin[2], 1 + dy / begin[3], minWidth / begin[2]));
        place([begin[0], begin[1], begin[2] * scale, begin[3] * scale]);
      } else place([begin[0] + dx, begin[1] + dy, begin[2], begin[3]]);
    };
    const end = () => {
      frame.removeEventListener("pointermove", moved);
      dragging = false;
      if (moving) refresh();
    };
    frame.setPointerCapture(event.pointerId);
    frame.addEventListener("pointermove", moved);
    frame.addEventListener("pointerup", end, { once: true });
    frame.addEventListener("pointercancel", end, { once: true });
  };

  frame.addEventListener("pointerdown", drag);
  frame.addEventListener("keydown", (event) => {
    if (!last || event.ctrlKey || event.metaKey || event.altKey) return;
    const d = event.shiftKey ? largeStep : step;
    const [x, y, w, h] = now();
    const grow = (f) => place([x, y, w * Math.min(f, (1 - x) / w, (1 - y) / h), h * Math.min(f, (1 - x) / w, (1 - y) / h)]);
    const action = {
      ArrowLeft: () => place([x - d, y, w, h]), ArrowRight: () => place([x + d, y, w, h]),
      ArrowUp: () => place([x, y - d, w, h]), ArrowDown: () => place([x, y + d, w, h]),
      "+": () => grow(1.05), "=": () => grow(1.05), "-": () => grow(1 / 1.05),
    }[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
  area.addEventListener("input", (event) => {
    if (["x", "y", "width", "height"].includes(event.target.name)) {
      exact.checked = true;
      moving = null;
      show();
      later();
      return;
    }
    if (event.target.name === "placement_page") for (const text of area.querySelectorAll("[data-room]")) text.hidden = true;
    moving = null;
    if (chosen() !== undefined) later();
  });
  for (const control of texts) control.addEventListener("change", () => { if (["appended", "cover"].includes(last?.mode)) later(); });
  stage.replaceChildren(canvas, frame);
  return refresh();
}

// hatched returns a canvas of the size of plain, with red stripes where ink has content.
function hatched(ink, plain) {
  const tile = Object.assign(document.createElement("canvas"), { width: 8, height: 8 });
  const lines = tile.getContext("2d");
  lines.strokeStyle = "#c00";
  lines.lineWidth = 2.5;
  for (const offset of [-8, 0, 8]) {
    lines.moveTo(offset - 2, 10);
    lines.lineTo(offset + 10, -2);
  }
  lines.stroke();
  const layer = Object.assign(document.createElement("canvas"), { width: plain.width, height: plain.height });
  const context = layer.getContext("2d");
  context.drawImage(ink, 0, 0, plain.width, plain.height);
  context.globalCompositeOperation = "source-in";
  context.fillStyle = context.createPattern(tile, "repeat");
  context.fillRect(0, 0, plain.width, plain.height);
  return layer;
}

for (const area of document.querySelectorAll("[data-placing]")) start(area);
