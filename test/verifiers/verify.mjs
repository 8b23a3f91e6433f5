// verify.mjs verifies credentials with libraries that verifiers use. Each line of standard input is a JSON
// object {library, credential, documents}: the name of a library, a credential as text, and an object with
// the documents that the credential refers to, by URL. For each line it prints "good", or "bad: " and the
// reason. It makes no requests. The first argument is the folder with the contexts that the vault embeds.
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { webcrypto } from 'node:crypto';

const contexts = {
  'https://www.w3.org/ns/credentials/v2': 'credentials-v2.json',
  'https://purl.imsglobal.org/spec/ob/v3p0/context-3.0.3.json': 'ob-3.0.3.json',
};
for (const [url, name] of Object.entries(contexts)) {
  contexts[url] = JSON.parse(readFileSync(`${process.argv[2]}/${name}`, 'utf8'));
}
let documents = {}; // of the current line

// verifier-core fetches the DID document and the status list with the global function fetch.
globalThis.fetch = async (request) => {
  const url = typeof request === 'string' ? request : request.url;
  if (documents[url] === undefined) {
    return new Response('not found', { status: 404 });
  }
  return new Response(documents[url], { headers: { 'content-type': 'application/json' } });
};
console.error = console.log = () => {};

const vc = await import('@digitalbazaar/vc');
const { DataIntegrityProof } = await import('@digitalbazaar/data-integrity');
const { cryptosuite } = await import('@digitalbazaar/eddsa-rdfc-2022-cryptosuite');
const { checkStatus } = await import('@digitalbazaar/vc-bitstring-status-list');
const core = await import('@digitalcredentials/verifier-core');
const { SDJwtVcInstance } = await import('@sd-jwt/sd-jwt-vc');

// didURL returns the URL of the document of a did:web identifier.
function didURL(did) {
  const [host, ...path] = did.slice('did:web:'.length).split(':').map(decodeURIComponent);
  return `https://${[host, ...(path.length ? path : ['.well-known'])].join('/')}/did.json`;
}

async function documentLoader(url) {
  let document = contexts[url];
  if (url.startsWith('did:')) {
    const [did, name] = url.split('#');
    document = JSON.parse(documents[didURL(did)]);
    if (name) {
      document = { '@context': 'https://w3id.org/security/multikey/v1', ...document.verificationMethod.find((m) => m.id === url) };
    }
  } else if (documents[url] !== undefined) {
    document = JSON.parse(documents[url]);
  }
  if (!document) {
    throw new Error(`${url} is not known`);
  }
  return { documentUrl: url, document, contextUrl: null };
}

async function digitalbazaar(text) {
  const credential = JSON.parse(text);
  const suite = new DataIntegrityProof({ cryptosuite });
  const result = await vc.verifyCredential({ credential, suite, documentLoader, checkStatus: credential.credentialStatus && checkStatus });
  if (!result.verified) {
    throw result.error?.errors?.[0] ?? result.error ?? result.statusResult?.error ?? new Error('not verified');
  }
  if (result.statusResult?.results?.some((r) => r.status)) {
    throw new Error('revoked');
  }
}

async function digitalcredentials(text) {
  const result = await core.verifyCredential({ credential: JSON.parse(text), knownDIDRegistries: [] });
  for (const e of result.errors ?? []) {
    throw new Error(`${e.name}: ${e.message}`);
  }
  for (const id of ['valid_signature', 'expiration', 'revocation_status']) {
    const step = result.log.find((entry) => entry.id === id);
    if (!step?.valid) {
      throw new Error(`${id}: ${step?.error?.message ?? 'failed'}`);
    }
  }
}

async function es256(jwk, message, signature) {
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256' };
  const key = await webcrypto.subtle.importKey('jwk', jwk, algorithm, false, ['verify']);
  return webcrypto.subtle.verify({ name: 'ECDSA', hash: 'SHA-256' }, key, Buffer.from(signature, 'base64url'), Buffer.from(message));
}

// sdjwt verifies the signature of an SD-JWT with the keys in the issuer's metadata, and checks its status.
async function sdjwt(text) {
  const part = (i) => JSON.parse(Buffer.from(text.split('.')[i], 'base64url'));
  const { iss } = part(1);
  const metadata = JSON.parse(documents[iss.replace(/^(https:\/\/[^/]+)/, '$1/.well-known/jwt-vc-issuer')]);
  if (metadata.issuer !== iss) {
    throw new Error('another issuer');
  }
  const instance = new SDJwtVcInstance({
    hasher: async (data, alg) => new Uint8Array(await webcrypto.subtle.digest(alg, typeof data === 'string' ? Buffer.from(data) : data)),
    hashAlg: 'sha-256',
    verifier: async (message, signature) => {
      for (const jwk of metadata.jwks.keys) {
        if (await es256(jwk, message, signature)) return true;
      }
      return false;
    },
    statusListFetcher: async (uri) => documents[uri],
  });
  const { payload } = await instance.verify(text);
  for (const claim of ['title', 'name', 'issue_date', 'achievement']) {
    if (payload[claim] === undefined) { // the library ignores a changed disclosure
      throw new Error(`${claim} is not disclosed`);
    }
  }
}

// jwt verifies a VC-JWT with the key that its header names, from the DID document of the issuer.
async function jwt(text) {
  const [head, body, signature] = text.split('.');
  const { alg, kid } = JSON.parse(Buffer.from(head, 'base64url'));
  const { issuer } = JSON.parse(Buffer.from(body, 'base64url'));
  const document = JSON.parse(documents[didURL(issuer.id)]);
  const method = document.verificationMethod.find((m) => m.id === kid);
  if (alg !== 'ES256' || !document.assertionMethod.includes(kid) || !(await es256(method.publicKeyJwk, `${head}.${body}`, signature))) {
    throw new Error('the signature is not valid');
  }
}

const libraries = { '@digitalbazaar/vc': digitalbazaar, '@digitalcredentials/verifier-core': digitalcredentials, '@sd-jwt/sd-jwt-vc': sdjwt, 'Web Crypto': jwt };

for await (const line of createInterface({ input: process.stdin })) {
  const { library, credential, documents: list } = JSON.parse(line);
  documents = list;
  let result = 'good';
  try {
    await libraries[library](credential);
  } catch (error) {
    result = `bad: ${String(error?.message ?? error).replaceAll('\n', ' ')}`;
  }
  process.stdout.write(`${result}\n`);
}
