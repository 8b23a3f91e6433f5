// Package pdf reads PDF files (ISO 32000-2) and writes incremental updates and
// new files.
//
// It implements the file structure: lexical conventions, cross-reference tables
// and streams, object streams, encryption, filters, the page tree, page geometry,
// the balance of content streams, the inspection of features and the
// serialisation of objects. It has no code for the stamp, the content of
// signatures, or storage.
//
// A [Document] reads through an io.ReaderAt and reads only what is needed: the
// end of the file, the cross-reference chain and the resolved objects. If the
// cross-reference is unusable, it scans the file once, in windows of limited
// size. AvoidReferenced also reads the whole file. An [Update] writes the bytes
// to append, never the original.
//
// Everything that comes from the file is limited: depth, counts, decoded bytes
// and the total work. A file that exceeds a limit causes [ErrLimit].
//
// A Document, and the objects read from it, must be used by one goroutine at a
// time.
package pdf
