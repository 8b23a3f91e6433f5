// Package pdf reads PDF files (ISO 32000-2) and writes incremental updates and
// new files.
//
// It implements lexical conventions, cross-reference tables and streams, object
// streams, encryption, filters, the page tree, page geometry, the balancing of
// page content (see [Balance]), the inspection of features and the serialisation
// of objects. It has no code for the stamp, the content of signatures, or storage.
//
// A [Document] reads only the parts of the file that it needs: the header, the end
// of the file, the cross-reference chain and the objects that are resolved. If the
// cross-reference is unusable, it reads the whole file once, in windows of
// limited size. AvoidReferenced also reads the whole file. An [Update] writes only
// the bytes to append.
//
// Nesting depth, counts, decoded bytes and the total work are limited, so that a
// file cannot use too much memory or time. See [ErrLimit].
//
// A Document, and the objects read from it, must be used by one goroutine at a
// time.
package pdf
