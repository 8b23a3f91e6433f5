package webhook

import (
	_ "embed" // for the samples
)

// Sample is code that verifies the signature of a delivery in one language.
type Sample struct {
	// Name is the name of the language in a Markdown code block, and Label its name for readers. Code
	// is the sample itself.
	Name, Label, Code string
}

var (
	//go:embed sample/verify.go.txt
	sampleGo string
	//go:embed sample/verify.mjs
	sampleNode string
	//go:embed sample/verify.php
	samplePHP string
	//go:embed sample/verify.py
	samplePython string
)

// Samples contains one sample for each language.
var Samples = []Sample{{"go", "Go", sampleGo}, {"js", "Node.js", sampleNode}, {"php", "PHP", samplePHP}, {"python", "Python", samplePython}}
