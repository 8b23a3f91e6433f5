// Command gen writes the documentation of the states of a certificate and of an application from the
// tables in packages cert and application.
package main

import (
	"log"
	"os"

	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/cert"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: gen FILE")
	}
	if err := os.WriteFile(os.Args[1], []byte(cert.Diagram()+application.Diagram()), 0o644); err != nil { //nolint:gosec // documentation is for everyone
		log.Fatal(err)
	}
}
