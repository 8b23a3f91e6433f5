package pades

import "encoding/asn1"

// Content types (RFC 5652, 4 and 5.1; RFC 3161, 2.4.2).
var (
	oidData       = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 1}
	oidSignedData = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 2}
	oidTSTInfo    = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 16, 1, 4}
)

// Attributes.
var (
	oidContentType          = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 3}         // RFC 5652, 11.1
	oidMessageDigest        = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 4}         // RFC 5652, 11.2
	oidSigningTime          = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 5}         // RFC 5652, 11.3
	oidSigningCertificate   = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 16, 2, 12} // RFC 2634, 5.4
	oidSigningCertificateV2 = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 16, 2, 47} // RFC 5035, 3
	oidAlgorithmProtection  = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 52}        // RFC 6211, 2
	oidTimeStampToken       = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 16, 2, 14} // RFC 3161, appendix A
)

// Digest algorithms (RFC 3370, 2.1 for SHA-1; RFC 5754, 2).
var (
	oidSHA1   = asn1.ObjectIdentifier{1, 3, 14, 3, 2, 26}
	oidSHA256 = asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 1}
	oidSHA384 = asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 2}
	oidSHA512 = asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 3}
)

// Signature algorithms (RFC 5754, 3; RFC 8017, C; RFC 8419, 2). The algorithm of an RSA signature with
// PKCS #1 v1.5 is either oidRSA, or an identifier that also names the digest, such as oidSHA256WithRSA.
// These identifiers differ in one byte. A change of that byte is not detected if no signature covers the
// identifier, as in the tokens of some time-stamp authorities. Signatures of this package cover the
// identifier.
var (
	oidRSA           = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}
	oidMGF1          = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 8}
	oidRSAPSS        = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 10}
	oidSHA256WithRSA = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 11}
	oidSHA384WithRSA = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 12}
	oidSHA512WithRSA = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 13}
	oidECDSASHA256   = asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, 2}
	oidECDSASHA384   = asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, 3}
	oidECDSASHA512   = asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, 4}
	oidEd25519       = asn1.ObjectIdentifier{1, 3, 101, 112}
)

// Extended key usages of certificates that may sign documents, besides
// anyExtendedKeyUsage and emailProtection, which the standard library defines.
var (
	oidDocumentSigning          = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 36}       // RFC 9336, 3.1
	oidDocumentSigningMicrosoft = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 311, 10, 3, 12} // used before RFC 9336
	oidDocumentSigningAdobe     = asn1.ObjectIdentifier{1, 2, 840, 113583, 1, 1, 5}
)

// oidExtKeyUsage is the extended key usage extension (RFC 5280, 4.2.1.12).
var oidExtKeyUsage = asn1.ObjectIdentifier{2, 5, 29, 37}
