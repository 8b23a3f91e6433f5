package pdf

import "errors"

// The ways in which a file can be refused. Each is found with errors.Is in
// what Open and the methods of Document return; the text is fit to be shown.
var (
	// ErrEmpty tells that the file has no bytes.
	ErrEmpty = errors.New("the file is empty")
	// ErrNotPDF tells that the content is not that of a PDF file.
	ErrNotPDF = errors.New("the file is not a PDF")
	// ErrTruncated tells that the end of the file is missing.
	ErrTruncated = errors.New("the PDF is cut off: its end is missing")
	// ErrDamaged tells that the file cannot be read and could not be repaired.
	ErrDamaged = errors.New("the PDF is damaged beyond repair")
	// ErrPassword tells that neither an empty user nor an empty owner password
	// opens the file.
	ErrPassword = errors.New("the PDF needs a password")
	// ErrEncryption tells that the file is encrypted in a way that is not
	// supported: a public-key security handler, or an unknown algorithm.
	ErrEncryption = errors.New("the PDF is encrypted in an unsupported way")
	// ErrNoPages tells that the document has no page.
	ErrNoPages = errors.New("the PDF has no page")
	// ErrLimit tells that the file asks for more memory or time than any honest
	// file does.
	ErrLimit = errors.New("the PDF exceeds the limits on size or complexity")
	// ErrFilter tells that a stream has a filter that is not decoded here: those of
	// images, and unknown ones.
	ErrFilter = errors.New("the stream has a filter that is not decoded")
)
