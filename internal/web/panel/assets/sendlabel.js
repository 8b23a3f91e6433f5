// The button to issue a certificate names the address to which the certificate is sent.

const issue = document.getElementById("issue");
const email = document.getElementById("applicant_email");
const plain = issue?.textContent;

export function label() {
  const address = email.value.trim();
  const now = (document.querySelector("[name=notify]:checked")?.value ?? "now") === "now";
  issue.textContent = now && issue.dataset.send && address && email.validity.valid ? issue.dataset.send.replace("{email}", () => address) : plain;
}

email?.addEventListener("input", label);
for (const choice of document.querySelectorAll("[name=notify]")) choice.addEventListener("change", label);
document.getElementById("notify_at")?.addEventListener("change", () => setTimeout(label));
addEventListener("pageshow", () => { if (email) label(); });
