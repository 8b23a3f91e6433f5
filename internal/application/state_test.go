package application_test

import (
	"os"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/application"
)

func TestDiagramIsCurrent(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/states.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(string(page), application.Diagram()) {
		t.Error("docs/states.md is not current: run go generate ./internal/application")
	}
}
