// Command gen draws the built-in designs and writes them to a folder.
//
//	go run ./gen pdf
package main

import (
	"log"
	"os"
	"path/filepath"

	"github.com/certvault/certvault/internal/design/builtin"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: gen folder")
	}
	files, err := builtin.Generate()
	if err != nil {
		log.Fatal("gen: ", err)
	}
	for name, data := range files {
		path := filepath.Join(os.Args[1], name)
		if err := os.WriteFile(path, data, 0o600); err != nil { //nolint:gosec // The path is an argument of the command line.
			log.Fatal("gen: ", err)
		}
	}
}
