package authority

import "fmt"

// These are the codes of faults. They are stable and are shown for a certificate that failed.
const (
	// CodeMissing means that the database has no key, that the key files of an earlier version are not
	// imported, or that the id of an institution is invalid.
	CodeMissing = "key_missing"
	// CodeLocked means that the key or the identity cannot be decrypted, or that the identity is
	// missing or belongs to another database.
	CodeLocked = "key_locked"
	// CodeBroken means that a key or the identity is damaged.
	CodeBroken = "key_broken"
	// CodeStorage means that the database or a file cannot be read or written.
	CodeStorage = "key_storage"
	// CodeProgram means that the signer program failed or took too long.
	CodeProgram = "key_program_failed"
	// CodeExpired means that a certificate of the key's chain has expired or expires within a day.
	CodeExpired = "key_expired"
	// CodeRefused means that a request is refused, for example because an imported key cannot sign
	// documents.
	CodeRefused = "key_refused"
)

// Fault is the reason why a key is unavailable or an operation failed. Unless its code is CodeRefused
// or CodeExpired, a fault can be temporary: the database or a signer program can work again, and a key
// or the identity can be restored from a backup. An expired key must be replaced.
type Fault struct {
	// Code is one of the codes of faults.
	Code string
	// Err is the cause, for the log.
	Err error
}

// Error returns the cause and the code.
func (f *Fault) Error() string { return fmt.Sprintf("signing key: %v (%s)", f.Err, f.Code) }

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Err }

// Message returns a sentence for the members of an institution. It contains no paths or causes.
func (f *Fault) Message() string {
	switch f.Code {
	case CodeMissing:
		return "The institution's signing key is missing. Ask the operator of this vault to restore it from a backup, then retry."
	case CodeLocked:
		return "The institution's signing key cannot be decrypted: the file or the passphrase that decrypts it is missing or wrong. Inform the operator of this vault, then retry."
	case CodeBroken:
		return "The institution's signing key is damaged. Ask the operator of this vault to restore it from a backup, then retry."
	case CodeProgram:
		return "The program that holds the institution's signing key failed. Retry when it works again."
	case CodeExpired:
		return "The certificate of the institution's signing key has expired or expires within a day, so nothing is signed with it. Create or import another key, then retry."
	case CodeRefused:
		return "This key cannot be used to sign documents."
	}
	return "The vault's keys could not be read or written. Retry when the vault's storage works again."
}
