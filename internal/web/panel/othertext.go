package panel

// otherTexts maps the key of a message in the section "domain" of the catalog to other English texts of the
// message. A text has the placeholders of its message. The texts of the API must not change, because
// clients may compare them. Other texts were stored with certificates by earlier versions, or are printed
// for operators.
var otherTexts = map[string][]string{
	// Texts of the API.
	"domain.bad_operation": {"Invalid operation"},
	"domain.limit_storage": {
		"This would exceed the storage limit of the institution “{institution}”. Limit: {limit_size} bytes; used: {used_size} bytes. " +
			"The operator of this vault can change the limit.",
	},
	"domain.staged_quota":         {"The files staged for bulk uploads would be more than {size} GB. Submit the entries that refer to them, or wait until they expire."},
	"domain.refused_promise":      {"The file name says {declared}, but its content is {found}."},
	"domain.refused_pdf_cut":      {"The PDF is cut off: its end is missing."},
	"domain.refused_no_pages":     {"The PDF has no pages."},
	"domain.refused_complex":      {"The PDF expands to far more data than any certificate needs."},
	"domain.refused_png_damaged":  {"The PNG image is damaged and cannot be read."},
	"domain.refused_png_cut":      {"The PNG image is cut off: its end is missing."},
	"domain.refused_png_complex":  {"The PNG image expands to far more data than any certificate needs."},
	"domain.refused_jpeg_damaged": {"The JPEG image is damaged and cannot be read."},
	"domain.refused_jpeg_cut":     {"The JPEG image is cut off: its end is missing."},
	"domain.refused_jpeg_empty":   {"The JPEG file contains no image."},
	"domain.refused_jpeg_coding": {
		"The JPEG image uses a rare coding (arithmetic, lossless, hierarchical or more than 8 bits) that PDF cannot show. Save it as an ordinary JPEG.",
	},
	"domain.refused_pixels": {"The image has {width} x {height} pixels. The limit is 128 megapixels."},
	"domain.refused_active": {"The PDF contains JavaScript or other actions that run by themselves, which this institution does not accept."},

	// Texts for operators, who can restore the file.
	"domain.template_missing": {"A file of the template is missing from the vault's storage. Restore it from a backup. The command certvault doctor --files names the file."},
	"domain.template_damaged": {"A file of the template is damaged in the vault's storage. Restore it from a backup. The command certvault doctor --files names the file."},

	"domain.health_restored": {
		"restored on {time} from a copy of {copied}; it is unknown which of {records} changed after the copy; files without records are kept until the vault is accepted",
	},

	// Failures of certificates that earlier versions stored.
	"domain.refused_not_pdf":  {"The file is named like a PDF document, but its content is something else."},
	"domain.refused_not_png":  {"The file is named like a PNG image, but its content is something else."},
	"domain.refused_not_jpeg": {"The file is named like a JPEG image, but its content is something else."},
	"domain.failed_vault": {
		"The verified PDF could not be created because of a fault in the vault. The vault's log has the details. Retry when the fault is fixed.",
		"The verified PDF could not be created because of a fault in the vault. Tell the operator of this vault: the vault's log has the details. " +
			"Retry when the fault is fixed.",
	},
	"domain.failed_crash": {"Processing was interrupted {n} times by a crash of the vault. Tell the operator of this vault, then retry."},
	"domain.failed_signature": {
		"The signature of the verified PDF is not valid, so the file was not published. The vault's log has the details. Tell the operator of this vault, then retry.",
	},
	"domain.failed_no_place": {"The QR code could not be placed where it can be scanned."},
	"domain.failed_missing":  {"The uploaded file is missing from the vault's storage. Restore it from a backup, then retry."},
	"domain.failed_damaged":  {"The uploaded file is damaged in the vault's storage. Restore it from a backup, then retry."},
	"domain.failed_template_missing": {
		"A file of the template is missing from the vault's storage. Restore it from a backup, then retry. The command certvault doctor --files names the file.",
	},
	"domain.failed_template_damaged": {
		"A file of the template is damaged in the vault's storage. Restore it from a backup, then retry. The command certvault doctor --files names the file.",
	},
	"domain.key_missing": {"The institution's signing key is missing. Restore it from a backup, then retry."},
	"domain.key_damaged": {"The institution's signing key is damaged. Restore it from a backup, then retry."},
	"domain.key_locked": {
		"The institution's signing key cannot be decrypted: the file or the passphrase that decrypts it is missing or not the right one.",
		"The institution's signing key cannot be decrypted: the file or the passphrase that decrypts it is missing or wrong. Tell the operator of this vault, then retry.",
	},
	"domain.key_storage": {"The vault's keys could not be read or written. Retry when its storage works again."},

	// Notices of certificates. The API has the text about layers. The others are from earlier versions.
	"domain.note_covers":   {"The chosen position was not empty; the stamp covers some content."},
	"domain.note_layers":   {"The PDF has layers that can be shown and hidden."},
	"domain.note_strip":    {"There was no free space on the page; the QR code is in a strip below it."},
	"domain.note_repaired": {"The PDF was damaged and has been repaired without changing a byte of it."},
	"domain.note_trailing": {"Bytes after the end of the image were left out of the verified PDF."},
}
