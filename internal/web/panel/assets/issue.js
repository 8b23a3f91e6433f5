// The form for one certificate from a template. It shows a picture of the certificate with the typed
// texts, which the vault draws, and the problems of the texts next to their controls.

import "./sendlabel.js";

const form = document.querySelector("form[data-issue]");
const canvas = form.querySelector("canvas");
const sample = form.querySelector(".stage img");
const says = form.querySelector("[data-says]");
form.querySelector("[data-show]").hidden = true;

// forget removes a problem and its mark on the control.
const forget = (control, problem) => {
  control.removeAttribute("aria-invalid");
  const described = (control.getAttribute("aria-describedby") ?? "").split(" ").filter((id) => id && id !== problem.id).join(" ");
  if (described) control.setAttribute("aria-describedby", described);
  else control.removeAttribute("aria-describedby");
  problem.remove();
};

// mark shows problems next to their controls, after removing the problems that it showed before.
const mark = (problems) => {
  for (const old of form.querySelectorAll("[data-live]")) forget(document.getElementById(old.dataset.live), old);
  for (const { control: id, text } of problems) {
    const control = document.getElementById(id);
    if (!control || document.getElementById(`${id}-problem`)) continue;
    const problem = Object.assign(document.createElement("p"), { className: "problem", id: `${id}-live`, textContent: text });
    problem.dataset.live = id;
    control.after(problem);
    control.setAttribute("aria-invalid", "true");
    control.setAttribute("aria-describedby", `${control.getAttribute("aria-describedby") ?? ""} ${problem.id}`.trim());
  }
};

let timer = 0;
let request = null;
const draw = async () => {
  request?.abort();
  const own = request = new AbortController();
  const body = new URLSearchParams(new FormData(form));
  // The picture does not show the e-mail address, so an incomplete address must not be reported as a problem.
  body.delete("applicant_email");
  try {
    const response = await fetch(form.dataset.draw, { method: "POST", body, headers: { "Upload-Script": "1" }, signal: own.signal });
    if (!response.ok) {
      const answer = response.headers.get("Content-Type")?.startsWith("application/json") ? await response.json() : {};
      mark(answer.problems ?? []);
      says.textContent = answer.problems?.length ? form.dataset.problem : answer.message || form.dataset.failed;
      return;
    }
    const picture = await createImageBitmap(await response.blob()); // the Content-Security-Policy allows no blob: URL
    if (own.signal.aborted) return;
    canvas.width = picture.width;
    canvas.height = picture.height;
    canvas.getContext("2d").drawImage(picture, 0, 0);
    canvas.hidden = false;
    if (sample) sample.hidden = true;
    mark([]);
    says.textContent = "";
  } catch (error) {
    if (error.name !== "AbortError") says.textContent = form.dataset.failed;
  }
};

form.addEventListener("input", (event) => {
  // A problem that the page contained when it was loaded may not apply to the changed text.
  const old = document.getElementById(`${event.target.id}-problem`);
  if (old) forget(event.target, old);
  clearTimeout(timer);
  timer = setTimeout(draw, 350);
});
addEventListener("pageshow", draw);
