// receive.mjs receives credentials like a wallet, with the library @openid4vc/openid4vci. Standard input is
// a JSON object {offer, code, host, server}: the link of a wallet offer, the mailed code, the base URL of
// the vault, and the URL of the test server that receives the requests in place of the vault. The output is
// a JSON object with the credentials by configuration and the public key of the wallet, or with an error.
import { createHash, generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Openid4vciClient } from '@openid4vc/openid4vci';
import { clientAuthenticationAnonymous, setGlobalConfig } from '@openid4vc/oauth2';

const { offer, code, host, server } = JSON.parse(readFileSync(0, 'utf8'));
setGlobalConfig({ allowInsecureUrls: false });
const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const publicJwk = pair.publicKey.export({ format: 'jwk' });
const encode = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
const client = new Openid4vciClient({
  callbacks: {
    fetch: (url, options) => fetch(String(url).replace(host, server), options),
    hash: (data, algorithm) => createHash(algorithm.replace('-', '')).update(data).digest(),
    generateRandom: (size) => randomBytes(size),
    clientAuthentication: clientAuthenticationAnonymous(),
    signJwt: (_, { header, payload }) => {
      const text = `${encode(header)}.${encode(payload)}`;
      const signature = sign('sha256', Buffer.from(text), { key: pair.privateKey, dsaEncoding: 'ieee-p1363' });
      return { jwt: `${text}.${signature.toString('base64url')}`, signerJwk: publicJwk };
    },
  },
});

try {
  const credentialOffer = await client.resolveCredentialOffer(offer);
  const issuerMetadata = await client.resolveIssuerMetadata(credentialOffer.credential_issuer);
  const { accessTokenResponse } = await client.retrievePreAuthorizedCodeAccessTokenFromOffer({ credentialOffer, issuerMetadata, txCode: code });
  const credentials = {};
  for (const id of credentialOffer.credential_configuration_ids) {
    const { c_nonce: nonce } = await client.requestNonce({ issuerMetadata });
    const { jwt } = await client.createCredentialRequestJwtProof({
      issuerMetadata, nonce, credentialConfigurationId: id, signer: { method: 'jwk', publicJwk, alg: 'ES256' },
    });
    const { credentialResponse } = await client.retrieveCredentials({
      issuerMetadata, accessToken: accessTokenResponse.access_token, credentialConfigurationId: id, proofs: { jwt: [jwt] },
    });
    credentials[id] = credentialResponse.credentials[0].credential;
  }
  console.log(JSON.stringify({ credentials, key: publicJwk }));
} catch (error) {
  console.log(JSON.stringify({ error: String(error.message ?? error) }));
}
