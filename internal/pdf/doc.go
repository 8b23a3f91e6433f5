// Package pdf reads PDF files (ISO 32000-2) and writes incremental updates
// and new files.
//
// It owns the file structure: lexical conventions, cross-reference tables and
// streams, object streams, encryption, filters, the page tree, the balance of
// content streams and the serialisation of objects. It knows nothing of what
// is stamped on a page, of signatures beyond where they are, and of storage.
//
// A [Document] reads through an io.ReaderAt and touches only what it is asked
// for: the tail, the cross-reference chain and the objects resolved. Only when
// the cross-reference is beyond use is the file scanned, once, in bounded
// windows. An [Update] yields the bytes to append, never the original.
//
// Everything that comes from the file is bounded: depth, counts, decoded bytes
// and the work done in all. A file that exceeds a bound ends in [ErrLimit].
//
// A Document, and what is read from it, is for one goroutine at a time.
package pdf
