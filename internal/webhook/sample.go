package webhook

import (
	_ "embed" // the samples
)

// Sample shows how a receiver checks the signature of a delivery.
type Sample struct {
	// Name is the language as Markdown knows it, Label as people do.
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

// Samples are all of them; a test runs each against deliveries.
var Samples = []Sample{{"go", "Go", sampleGo}, {"js", "Node.js", sampleNode}, {"php", "PHP", samplePHP}, {"python", "Python", samplePython}}
