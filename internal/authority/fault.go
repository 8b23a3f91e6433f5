package authority

import "fmt"

// Codes of faults: short stable words, as a failed certificate shows them.
const (
	// CodeMissing: there is no key, or its file is gone.
	CodeMissing = "key_missing"
	// CodeLocked: the key cannot be decrypted with the key file or passphrase given.
	CodeLocked = "key_locked"
	// CodeBroken: a file of the folder is not what it should be.
	CodeBroken = "key_broken"
	// CodeStorage: the folder cannot be read or written.
	CodeStorage = "key_storage"
	// CodeProgram: the signer program failed, or took too long.
	CodeProgram = "key_program_failed"
	// CodeRefused: what was brought along is no key that can sign documents.
	CodeRefused = "key_refused"
)

// Fault is why a key could not be had or used. All but CodeRefused may pass: a file
// comes back from a backup, a program comes up again.
type Fault struct {
	// Code is one of the codes above.
	Code string
	// Err is the cause, for the log.
	Err error
}

// Error says what is behind the fault.
func (f *Fault) Error() string { return fmt.Sprintf("signing key: %s: %v", f.Code, f.Err) }

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Err }

// Message is one plain sentence for the people of an institution.
func (f *Fault) Message() string {
	switch f.Code {
	case CodeMissing:
		return "The institution's signing key is missing. Restore it from a backup, then retry."
	case CodeLocked:
		return "The institution's signing key cannot be decrypted: the key file or the passphrase is not the right one."
	case CodeBroken:
		return "The institution's signing key is damaged. Restore it from a backup, then retry."
	case CodeProgram:
		return "The program that holds the institution's signing key failed. Retry when it works again."
	case CodeRefused:
		return "This key cannot be used to sign documents."
	}
	return "The vault's keys could not be read or written. Retry when its storage is mended."
}
