package webhook

import (
	_ "embed" // for the samples
)

// Sample is code that verifies the signature of a delivery in one language.
type Sample struct {
	// Name is the language's name in a Markdown code block, and Label its name for readers.
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

// Samples are the samples in all languages. A test runs each sample on real deliveries.
var Samples = []Sample{{"go", "Go", sampleGo}, {"js", "Node.js", sampleNode}, {"php", "PHP", samplePHP}, {"python", "Python", samplePython}}
