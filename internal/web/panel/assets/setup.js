// The set-up page shows the result of the test mail above the button. Without this module, the result is
// shown in a new tab.

for (const button of document.querySelectorAll("[data-test-mail]")) {
  const result = document.getElementById("mail-result");
  const show = (tone, title, text) => {
    const note = document.createElement("p");
    note.className = `note ${tone}`;
    const strong = document.createElement("strong");
    strong.textContent = title;
    note.append(strong, ` ${text}`);
    result.replaceChildren(note);
  };
  button.addEventListener("click", async (event) => {
    event.preventDefault();
    button.disabled = true;
    try {
      const body = new URLSearchParams();
      for (const name of ["token", "owner_name", "owner_email"]) body.set(name, button.form.elements[name].value);
      const response = await fetch(button.formAction, { method: "POST", body, headers: { Accept: "application/json" } });
      const answer = await response.json();
      if (response.ok) show(answer.tone, answer.title, answer.text);
      else show("bad", Object.values(answer.errors ?? {}).flat()[0] ?? answer.message, "");
    } catch {
      // If there is no valid response, submit the form as without this module.
      button.disabled = false;
      button.form.requestSubmit(button);
      return;
    }
    button.disabled = false;
  });
}
