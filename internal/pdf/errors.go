package pdf

import "errors"

// Errors for refused files and for streams that cannot be decoded. Open and the
// methods of Document and Stream return errors that wrap these errors.
// The text of these errors may be shown to users.
var (
	// ErrEmpty means that the file has no bytes.
	ErrEmpty = errors.New("the file is empty")
	// ErrNotPDF means that the content is not a PDF file.
	ErrNotPDF = errors.New("the file is not a PDF")
	// ErrTruncated means that the end of the file is missing.
	ErrTruncated = errors.New("the PDF is cut off: its end is missing")
	// ErrDamaged means that the file cannot be read and could not be repaired.
	ErrDamaged = errors.New("the PDF is damaged beyond repair")
	// ErrPassword means that the file cannot be opened with an empty user password.
	ErrPassword = errors.New("the PDF needs a password")
	// ErrEncryption means that the encryption is not supported: a security
	// handler other than Standard, an unknown algorithm, or permissions without a
	// matching encrypted copy.
	ErrEncryption = errors.New("the PDF is encrypted in an unsupported way")
	// ErrNoPages means that the document has no pages, or no page with the
	// requested index.
	ErrNoPages = errors.New("the PDF has no page")
	// ErrLimit means that the file exceeds a limit of this package, for example
	// the limit on decoded bytes.
	ErrLimit = errors.New("the PDF exceeds the limits on size or complexity")
	// ErrFilter means that a stream has a filter that this package does not
	// decode: an image filter or an unknown filter.
	ErrFilter = errors.New("the stream has an unsupported filter")
)
