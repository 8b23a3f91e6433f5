// Package credential builds, signs and verifies digital credentials: Open Badges 3.0 on the
// Verifiable Credentials data model 2.0. It does not use a database, the network or a clock: the caller
// passes keys, times, and a Fetcher for the documents that a credential refers to.
//
// New builds a credential. SignDataIntegrity, SignJWT and SignSDJWT sign it in three formats.
// SignStatusList and SignStatusToken sign the status list of credentials. DIDDocument and IssuerMetadata
// return the public keys of an issuer. BakePNG and BakeSVG add a credential to a picture. Verify verifies
// a credential of any issuer and reports each check, including the checks that were not possible.
//
// The comments cite these documents:
//
//   - VC: Verifiable Credentials Data Model v2.0, W3C Recommendation
//   - OB: Open Badges Specification 3.0, 1EdTech
//   - VC-DI: Verifiable Credential Data Integrity 1.0, W3C Recommendation
//   - DI-EdDSA: Data Integrity EdDSA Cryptosuites v1.0, W3C Recommendation
//   - RDFC: RDF Dataset Canonicalization (RDFC-1.0), W3C Recommendation
//   - VC-JOSE: Securing Verifiable Credentials using JOSE and COSE, W3C Recommendation
//   - BSL: Bitstring Status List v1.0, W3C Recommendation
//   - CID: Controlled Identifiers v1.0, W3C Recommendation
//   - DID: Decentralized Identifiers (DIDs) v1.0, and the did:web and did:key methods
//   - RFC 9901: Selective Disclosure for JWTs (SD-JWT)
//   - SD-JWT VC: draft-ietf-oauth-sd-jwt-vc-17
//   - TSL: draft-ietf-oauth-status-list (Token Status List)
package credential
