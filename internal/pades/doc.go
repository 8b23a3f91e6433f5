// Package pades signs and verifies PDF files with PAdES baseline signatures (ETSI
// EN 319 142-1) of level B-B and, with a time stamp, B-T.
//
// It implements the signature dictionary and its field (ISO 32000-2, 12.8 and
// 12.7.5.5), the CMS object in it (RFC 5652 with the attributes of ETSI EN 319
// 122-1), time stamps (RFC 3161), and the verdict on a file. It does not manage
// keys (package authority), write the syntax of files (package pdf), or draw the
// visible stamp.
//
// Signing adds the signature to the caller's [pdf.Update], so that one revision contains the stamp
// and the signature. Call [Signer.Prepare] before the update is written, and [Pending.Complete] on
// the written bytes. Complete hashes only those bytes if the caller has saved the hash state of the
// file before the update. Otherwise Complete also reads that file.
//
// [Verify] uses only the file and its [Options]. It searches the bytes of the
// file for signature dictionaries. With package pdf it finds the signatures that a
// viewer would show, lists later changes, and reads an attached original.
//
// The package uses no clock, network or storage: the caller passes the time and
// the connection to a time-stamp authority.
package pades
