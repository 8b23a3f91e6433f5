// Package pades signs PDF files and verifies signed ones: PAdES baseline
// signatures (ETSI EN 319 142-1) of level B-B and, with a time stamp, B-T.
//
// It owns the signature dictionary and its field (ISO 32000-2, 12.8 and
// 12.7.5.5), the CMS object inside (RFC 5652 with the attributes of ETSI EN
// 319 122-1), time stamps (RFC 3161), and the verdict on a file. It does not own
// keys (package authority), the syntax of files that it writes (package pdf), or
// the stamp that a person sees.
//
// Signing adds to a [pdf.Update] that the caller puts together, so that stamp and
// signature are one revision: [Signer.Prepare] before the update is written,
// [Pending.Complete] on the bytes that were. Only these are hashed; the digest
// of what stands before them goes on from a saved state.
//
// [Verify] trusts nothing that signing left behind. It looks for signature
// dictionaries in the bytes of the file itself, and package pdf merely tells it
// what a viewer would show.
//
// The package has no clock, no network and no storage: time and the way to a
// time-stamp authority are given to it.
package pades
