// The preview of the mail shows the typed text. Without this module, a button loads the preview.
const form = document.querySelector("[data-mail-text]");
const frame = document.querySelector("[data-mail-preview]");

// pause is the time in milliseconds after the last key before the preview is loaded.
const pause = 400;

if (form && frame) {
  const unsaved = document.querySelector("[data-preview-unsaved]");
  const path = new URL(frame.src).pathname;
  let timer = 0;
  const show = () => {
    const query = new URLSearchParams(new FormData(form));
    query.set("draft", "1");
    // replace adds no entry to the history of the browser, so that "back" leaves the page.
    frame.contentWindow.location.replace(`${path}?${query}`);
    unsaved.hidden = false;
  };
  form.querySelector("[data-show-preview]").hidden = true;
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(show, pause);
  });
  // A browser that returns to the page restores the typed text.
  window.addEventListener("pageshow", (event) => { if (event.persisted) show(); });
}
