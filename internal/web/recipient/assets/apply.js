// This module checks the files of an application, uploads them, and shows the progress. Without this
// module, the browser sends the files with the form.

// A form that was sent knows only the draft before that. Therefore, it is loaded again if the browser shows it
// again without a request, for example after Back.
let sent = false;
addEventListener("submit", () => { sent = true; });
addEventListener("pageshow", (event) => {
  if (event.persisted && sent) location.reload();
});

const form = document.querySelector("form.application[data-limit]");
if (form) start(form);

function start(form) {
  const texts = form.dataset;
  let request = null;

  const blockOf = (input) => input.closest("[data-block]");

  // show writes the state of an upload below its control. If percent is undefined, it hides the progress
  // bar. If text is empty, it hides the state.
  const show = (block, text, percent) => {
    const area = block.querySelector(".sending");
    const bar = area.querySelector("progress");
    area.hidden = !text;
    bar.hidden = percent === undefined;
    if (percent !== undefined) bar.value = percent;
    area.querySelector("[role=status]").textContent = text;
  };

  // explain shows a problem with the chosen files, and clears the control.
  const explain = (input, text) => {
    input.value = "";
    input.ariaInvalid = "true";
    show(blockOf(input), text);
    input.focus();
  };

  // send posts the form and calls done with the completed request. Scripts in the response do not run.
  const send = (block, submitter, done) => {
    request?.abort();
    const own = request = new XMLHttpRequest();
    own.open("POST", form.action);
    own.setRequestHeader("Upload-Script", "1");
    own.responseType = "document";
    own.upload.addEventListener("progress", (now) => {
      if (!now.lengthComputable) return;
      const percent = Math.floor((100 * now.loaded) / now.total);
      show(block, now.loaded < now.total ? texts.sending.replace("{percent}", percent) : texts.checking, percent);
    });
    own.addEventListener("load", () => done(own));
    own.addEventListener("error", () => show(block, texts.interrupted));
    show(block, texts.sending.replace("{percent}", 0), 0);
    own.send(new FormData(form, submitter));
  };

  // replace replaces the blocks of files with those of the response, which show the files and their
  // problems. It does not change the texts that the person has entered.
  const replace = (input, own) => {
    const blocks = own.response?.querySelectorAll("form.application [data-block]") ?? [];
    if (!blocks.length) return show(blockOf(input), texts.interrupted);
    for (const block of blocks) {
      form.querySelector(`[data-block="${block.dataset.block}"]`)?.replaceWith(document.importNode(block, true));
    }
    document.getElementById(input.id)?.focus();
  };

  form.addEventListener("change", async (event) => {
    const input = event.target;
    if (input.type !== "file" || !input.files.length) return;
    input.ariaInvalid = null;
    show(blockOf(input), "");
    for (const file of input.files) {
      if (!file.size) return explain(input, texts.empty);
      if (file.size > texts.limit * 1048576) return explain(input, texts.large);
      let head;
      try {
        head = new Uint8Array(await file.slice(0, 1024).arrayBuffer());
      } catch {
        return explain(input, texts.interrupted);
      }
      if (!known(head)) return explain(input, texts.kind);
    }
    if ("files" in texts) send(blockOf(input), undefined, (own) => replace(input, own));
  });

  form.addEventListener("submit", (event) => {
    request?.abort();
    const input = form.querySelector("input[type=file]");
    if (!("send" in texts) || !input?.files.length) return;
    event.preventDefault();
    send(blockOf(input), event.submitter, (own) => {
      const next = own.getResponseHeader("Location");
      if (own.status < 400 && next) return location.assign(next);
      const main = own.response?.querySelector("main");
      if (!main?.querySelector(".problems")) return show(blockOf(input), texts.interrupted);
      document.querySelector("main").replaceWith(document.importNode(main, true));
      document.querySelector(".problems").focus();
      start(document.querySelector("form.application[data-limit]"));
    });
  });
}

// known reports whether the beginning of a file is that of a JPEG or a PNG file, or contains the header of a
// PDF.
function known(head) {
  const begins = (...bytes) => bytes.every((byte, i) => head[i] === byte);
  return begins(0xff, 0xd8, 0xff) || begins(0x89, 0x50, 0x4e, 0x47) || new TextDecoder("latin1").decode(head).includes("%PDF-");
}
