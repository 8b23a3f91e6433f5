// The button to issue a certificate names the address to which the certificate is sent.

const issue = document.getElementById("issue");
const email = document.getElementById("applicant_email");
const plain = issue?.textContent;

export function label() {
  const address = email.value.trim();
  issue.textContent = issue.dataset.send && address && email.validity.valid ? issue.dataset.send.replace("{email}", () => address) : plain;
}

email?.addEventListener("input", label);
addEventListener("pageshow", () => { if (email) label(); });
