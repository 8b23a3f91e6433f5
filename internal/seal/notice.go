package seal

import "github.com/certvault/certvault/internal/pdf"

// active reports whether a document has active content.
func active(f pdf.Findings) bool {
	return f.JavaScript || f.Launch || f.OpenAction || f.AdditionalAction || f.XFA || f.RichMedia
}

// notices returns the findings in a document as notices for the institution.
func notices(doc *pdf.Document, f pdf.Findings) []Notice {
	var out []Notice
	add := func(found bool, code, message string) {
		if found {
			out = append(out, Notice{code, message})
		}
	}
	add(f.JavaScript, "javascript", "The PDF contains JavaScript.")
	add(f.Launch, "launch_action", "The PDF contains an action that starts a program.")
	add(f.OpenAction, "open_action", "The PDF contains an action that runs when it is opened.")
	add(f.AdditionalAction, "additional_actions", "The PDF contains actions that run by themselves.")
	add(f.XFA, "xfa", "The PDF contains an XFA form.")
	add(f.ExternalActions, "external_actions", "The PDF contains actions that lead to other files or send data.")
	add(f.RichMedia, "rich_media", "The PDF contains video, sound or 3D content.")
	add(f.EmbeddedFiles, "embedded_files", "The PDF contains attached files.")
	add(f.Portfolio, "portfolio", "The PDF is a portfolio of other files.")
	add(f.Layers, "layers", "The PDF has layers that can be shown and hidden.")
	add(f.AcroForm, "form", "The PDF has form fields.")
	add(len(f.Signatures) > 0, "signed", "The PDF was signed before; its signatures stay as they are.")
	add(doc.Encrypted(), "encrypted", "The PDF is encrypted with an empty password; the verified PDF is encrypted in the same way.")
	add(doc.Repaired() || doc.FaultyPageTree(), "repaired", "The PDF was damaged. It was repaired, and its existing bytes were not changed.")
	return out
}
