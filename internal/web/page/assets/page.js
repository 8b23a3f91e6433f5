// Functions that need a script: closing a menu, copying text, printing, looking a file up by its
// fingerprint, and reading a QR code. Except for menus, their controls are hidden until this module runs.

// A menu closes if the person clicks outside it or presses Escape.
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

for (const button of document.querySelectorAll("[data-print]")) {
  button.hidden = false;
  button.addEventListener("click", () => print());
}

// referenceID matches a reference id in the form in which the vault prints it.
const referenceID = /\b[A-Z0-9]{2,10}-[0-9A-HJKMNP-TV-Z]{16}(?![0-9A-Z])/g;

for (const button of document.querySelectorAll("[data-copy]")) {
  if (!navigator.clipboard) break;
  button.hidden = false;
  const label = button.textContent;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = button.dataset.copied;
    setTimeout(() => { button.textContent = label; }, 2000);
  });
}

for (const area of document.querySelectorAll("[data-drop]")) {
  if (!globalThis.crypto?.subtle) {
    area.remove();
    continue;
  }
  area.hidden = false;
  const status = area.querySelector("[role=status]");
  const input = area.querySelector("input");
  input.addEventListener("change", () => lookUp(area, input.files[0], status));
  // The handlers are on the document, because a browser leaves the page and opens a file that is
  // dropped outside the area.
  for (const name of ["dragover", "drop"]) {
    document.addEventListener(name, (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      area.classList.toggle("over", name === "dragover" && area.contains(event.target));
      if (name === "drop") lookUp(area, event.dataTransfer.files[0], status);
    });
  }
  document.addEventListener("dragleave", () => area.classList.remove("over"));
}

// lookUp computes the fingerprint of a file and opens the page of that fingerprint. It does not
// send the file.
async function lookUp(area, file, status) {
  if (!file) return;
  if (file.size > area.dataset.most * 1024 * 1024) {
    status.textContent = status.dataset.large;
    return;
  }
  status.textContent = status.dataset.reading;
  let bytes;
  try {
    bytes = await file.arrayBuffer();
  } catch {
    status.textContent = status.dataset.unreadable;
    return;
  }
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  const hex = Array.from(digest, (b) => b.toString(16).padStart(2, "0")).join("");
  const target = new URL(area.dataset.drop, location.href);
  target.pathname += hex;
  let reference = area.dataset.reference;
  if (!reference && !(await known(target))) reference = printed(bytes);
  if (reference) target.searchParams.set("reference_id", reference);
  location.assign(target);
}

// known reports whether the vault has a file with the fingerprint in target, and returns true if the
// request fails. The method is HEAD, because the vault counts a GET request as a verification.
async function known(target) {
  try {
    return (await fetch(target, { method: "HEAD", headers: { Accept: "application/json" } })).ok;
  } catch {
    return true; // the page at target shows the error
  }
}

// printed returns the last reference id in a file, or undefined. If a file contains several, the last
// one is from the stamp of the vault, which is at the end of the file.
function printed(bytes) {
  const text = new TextDecoder("latin1").decode(bytes);
  return text.match(referenceID)?.at(-1);
}

for (const scan of document.querySelectorAll("[data-scan]")) {
  if (!navigator.mediaDevices?.getUserMedia) {
    scan.remove();
    continue;
  }
  scan.hidden = false;
  const dialog = scan.querySelector("dialog");
  const video = scan.querySelector("video");
  const status = scan.querySelector("[role=status]");
  const stop = () => {
    for (const track of video.srcObject?.getTracks() ?? []) track.stop();
    video.srcObject = null;
  };
  dialog.addEventListener("close", stop);
  dialog.querySelector("[data-stop]").addEventListener("click", () => dialog.close());
  scan.querySelector("button").addEventListener("click", async () => {
    status.textContent = "";
    try {
      const [read, stream] = await Promise.all([
        reader(scan.dataset.scan),
        navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } }),
      ]);
      dialog.showModal();
      video.srcObject = stream;
      await video.play();
      const text = await watch(video, read);
      dialog.close();
      if (text) follow(text, status);
    } catch {
      dialog.close();
      stop();
      status.textContent = status.dataset.denied;
    }
  });
}

// reader returns a function that reads a QR code from a video. The function uses the browser's
// BarcodeDetector if it reads QR codes, and otherwise the module at the address decoder.
async function reader(decoder) {
  const formats = await globalThis.BarcodeDetector?.getSupportedFormats?.();
  if (formats?.includes("qr_code")) {
    const detector = new BarcodeDetector({ formats: ["qr_code"] });
    return async (video) => (await detector.detect(video))[0]?.rawValue;
  }
  const { decodeQR } = await import(new URL(decoder, location.href));
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("2d", { willReadFrequently: true });
  return async (video) => {
    const scale = Math.min(1, 960 / Math.max(video.videoWidth, video.videoHeight));
    canvas.width = video.videoWidth * scale;
    canvas.height = video.videoHeight * scale;
    context.drawImage(video, 0, 0, canvas.width, canvas.height);
    try {
      return decodeQR(context.getImageData(0, 0, canvas.width, canvas.height));
    } catch {
      return undefined; // the picture contains no code
    }
  };
}

// watch reads the video until the video shows a code, and returns the text of the code. It returns
// undefined if the video is stopped.
async function watch(video, read) {
  while (video.srcObject) {
    if (video.videoWidth) {
      const text = await read(video);
      if (text) return text;
    }
    await new Promise((done) => setTimeout(done, 100));
  }
  return undefined;
}

// follow submits the text of a code with the lookup form. It does not open a link in a code, because
// the link may lead to another host. The vault uses only the reference id in the link.
function follow(text, status) {
  const input = document.getElementById("reference_id");
  if (!text.includes("/verify/") && !text.match(referenceID)) {
    status.textContent = status.dataset.foreign;
    return;
  }
  input.value = text.slice(0, 300);
  input.form.requestSubmit();
}
