// Passkeys: the browser asks an authenticator, and the vault checks its answer.
// What needs this module is hidden until it runs, and until the browser can do it.

const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
const text = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");

// ask sends JSON. Whoever must sign in again first is led there.
async function ask(address, body) {
  const answer = await fetch(address, {
    method: "POST",
    headers: { Accept: "application/json", "Content-Type": "application/json" },
    body: JSON.stringify(body ?? {}),
  });
  const said = await answer.json();
  if (said.location) {
    location.assign(said.location);
    return undefined;
  }
  if (!answer.ok) throw new Error(said.message);
  return said;
}

// descriptors makes what names credentials readable for the browser.
const descriptors = (list) => (list ?? []).map((one) => ({ ...one, id: bytes(one.id) }));

async function get(options) {
  const key = options.publicKey;
  const found = await navigator.credentials.get({
    publicKey: { ...key, challenge: bytes(key.challenge), allowCredentials: descriptors(key.allowCredentials) },
  });
  const r = found.response;
  return {
    id: found.id, rawId: text(found.rawId), type: found.type, clientExtensionResults: {},
    response: {
      clientDataJSON: text(r.clientDataJSON), authenticatorData: text(r.authenticatorData), signature: text(r.signature),
      userHandle: r.userHandle ? text(r.userHandle) : undefined,
    },
  };
}

async function create(options) {
  const key = options.publicKey;
  const made = await navigator.credentials.create({
    publicKey: {
      ...key, challenge: bytes(key.challenge), user: { ...key.user, id: bytes(key.user.id) }, excludeCredentials: descriptors(key.excludeCredentials),
    },
  });
  const r = made.response;
  return {
    id: made.id, rawId: text(made.rawId), type: made.type, clientExtensionResults: {},
    response: { clientDataJSON: text(r.clientDataJSON), attestationObject: text(r.attestationObject), transports: r.getTransports?.() ?? [] },
  };
}

// run goes through a ceremony: what to ask, the authenticator, what it answered.
async function run(area, says, authenticator, finish) {
  says.textContent = "";
  try {
    const begun = await ask(area.dataset.options);
    if (!begun) return;
    await finish(begun.ceremony, await authenticator(begun.options));
  } catch {
    says.textContent = area.dataset.failed;
  }
}

if (globalThis.PublicKeyCredential) {
  for (const area of document.querySelectorAll("[data-passkey]")) {
    area.hidden = false;
    const next = document.querySelector("input[name=next]")?.value ?? "";
    area.querySelector("button").addEventListener("click", () => run(area, area.querySelector("[role=status]"), get,
      (ceremony, response) => ask(area.dataset.passkey, { ceremony, response, next })));
  }
  for (const form of document.querySelectorAll("[data-new-passkey]")) {
    form.hidden = false;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const name = form.elements.passkey_name.value;
      run(form, form.querySelector("[role=status]"), create,
        (ceremony, response) => ask(form.dataset.newPasskey, { ceremony, response, name }));
    });
  }
}
