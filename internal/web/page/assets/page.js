// What a page can do beyond its HTML: copy, look a file up by its fingerprint,
// read a QR code. Everything here is hidden until this module runs.

// A reference id as the vault prints it.
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
  const says = area.querySelector("[role=status]");
  const input = area.querySelector("input");
  input.addEventListener("change", () => lookUp(area, input.files[0], says));
  // A file that misses the area must not replace the page.
  for (const name of ["dragover", "drop"]) {
    document.addEventListener(name, (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      area.classList.toggle("over", name === "dragover" && area.contains(event.target));
      if (name === "drop") lookUp(area, event.dataTransfer.files[0], says);
    });
  }
  document.addEventListener("dragleave", () => area.classList.remove("over"));
}

// lookUp hashes a file and goes to what is known of it. The file is not sent.
async function lookUp(area, file, says) {
  if (!file) return;
  if (file.size > area.dataset.most * 1024 * 1024) {
    says.textContent = says.dataset.large;
    return;
  }
  says.textContent = says.dataset.reading;
  let bytes;
  try {
    bytes = await file.arrayBuffer();
  } catch {
    says.textContent = says.dataset.unreadable;
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

// known tells whether the vault knows a file by its fingerprint.
async function known(target) {
  try {
    return (await fetch(target, { headers: { Accept: "application/json" } })).ok;
  } catch {
    return true; // the page itself will say what is wrong
  }
}

// printed finds the reference id that a file claims: the last one it names, since
// what the vault adds stands at the end.
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
  const says = scan.querySelector("[role=status]");
  const stop = () => {
    for (const track of video.srcObject?.getTracks() ?? []) track.stop();
    video.srcObject = null;
  };
  dialog.addEventListener("close", stop);
  dialog.querySelector("[data-stop]").addEventListener("click", () => dialog.close());
  scan.querySelector("button").addEventListener("click", async () => {
    says.textContent = "";
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
      if (text) follow(text, says);
    } catch {
      dialog.close();
      stop();
      says.textContent = says.dataset.denied;
    }
  });
}

// reader gives what reads a QR code from a video: the browser's own, else a
// decoder that is loaded now.
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
      return undefined; // no code in this picture
    }
  };
}

// watch looks at the video until it shows a code or is stopped.
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

// follow looks up what a code says. It never leads to another host: of a link
// only the reference id is taken.
function follow(text, says) {
  const input = document.getElementById("reference_id");
  if (!text.includes("/verify/") && !text.match(referenceID)) {
    says.textContent = says.dataset.foreign;
    return;
  }
  input.value = text.slice(0, 300);
  input.form.requestSubmit();
}
