// Passkeys: the browser calls an authenticator, and the vault checks the response. The controls
// are hidden until this module runs in a browser that supports passkeys.

const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
const text = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");

// post sends JSON and returns the response. If the response has the address of another page, for example
// because the person must sign in first, post opens that page and returns undefined.
async function post(address, body) {
  const response = await fetch(address, {
    method: "POST",
    headers: { Accept: "application/json", "Content-Type": "application/json" },
    body: JSON.stringify(body ?? {}),
  });
  const result = await response.json();
  if (result.location) {
    location.assign(result.location);
    return undefined;
  }
  if (!response.ok) throw new Error(result.message);
  return result;
}

// descriptors returns credential descriptors with decoded ids, as the browser requires them.
const descriptors = (list) => (list ?? []).map((descriptor) => ({ ...descriptor, id: bytes(descriptor.id) }));

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
  const created = await navigator.credentials.create({
    publicKey: {
      ...key, challenge: bytes(key.challenge), user: { ...key.user, id: bytes(key.user.id) }, excludeCredentials: descriptors(key.excludeCredentials),
    },
  });
  const r = created.response;
  return {
    id: created.id, rawId: text(created.rawId), type: created.type, clientExtensionResults: {},
    response: { clientDataJSON: text(r.clientDataJSON), attestationObject: text(r.attestationObject), transports: r.getTransports?.() ?? [] },
  };
}

// run performs a ceremony: it requests the options, calls the authenticator and sends its response.
async function run(area, status, authenticator, finish) {
  status.textContent = "";
  try {
    const started = await post(area.dataset.options);
    if (!started) return;
    await finish(started.ceremony, await authenticator(started.options));
  } catch {
    status.textContent = area.dataset.failed;
  }
}

if (globalThis.PublicKeyCredential) {
  for (const area of document.querySelectorAll("[data-passkey]")) {
    area.hidden = false;
    const next = document.querySelector("input[name=next]")?.value ?? "";
    area.querySelector("button").addEventListener("click", () => run(area, area.querySelector("[role=status]"), get,
      (ceremony, response) => post(area.dataset.passkey, { ceremony, response, next })));
  }
  for (const form of document.querySelectorAll("[data-new-passkey]")) {
    form.hidden = false;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const name = form.elements.passkey_name.value;
      run(form, form.querySelector("[role=status]"), create,
        (ceremony, response) => post(form.dataset.newPasskey, { ceremony, response, name }));
    });
  }
}
