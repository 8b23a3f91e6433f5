package bulkimport

import (
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	t.Parallel()
	var files []*File
	for _, path := range []string{"Zoë Müller.PDF", "2025/a.pdf", "2026/a.pdf", "deep/er/b.pdf", "c.jpg", "d.pdf", "d.png", "1001.pdf", "İ.pdf"} {
		files = append(files, &File{Path: path})
	}
	s := newFileIndex(files)
	for name, want := range map[string]string{
		"Zoë Müller.PDF":                  "Zoë Müller.PDF",
		"zoë müller.pdf":                  "Zoë Müller.PDF",
		"Zoe\u0308 Mu\u0308ller.pdf":      "Zoë Müller.PDF",
		"Zoë Müller":                      "Zoë Müller.PDF",
		"ZOË  MÜLLER":                     "Zoë Müller.PDF",
		`C:\Diplomas\Zoë Müller.pdf`:      "Zoë Müller.PDF",
		"2026/a.pdf":                      "2026/a.pdf",
		`2026\A.PDF`:                      "2026/a.pdf",
		"./2026/a.pdf":                    "2026/a.pdf",
		"diplomas/2026/a.pdf":             "2026/a.pdf",
		"er/b.pdf":                        "deep/er/b.pdf",
		"b.pdf":                           "deep/er/b.pdf",
		"b":                               "deep/er/b.pdf",
		"c.pdf":                           "c.jpg",
		"d.png":                           "d.png",
		"1001":                            "1001.pdf",
		"a.pdf":                           "!many_files (limit 2)",
		"a":                               "!many_files (limit 2)",
		"d":                               "!many_files (limit 2)",
		"2024/x.pdf":                      "!no_file: ",
		"":                                "!required",
		"../../etc/passwd":                "!no_file: ",
		strings.Repeat("../", 100) + "d":  "!many_files (limit 2)",
		"Zoë Müller.pdf.pdf":              "!no_file: ",
		"2025/../2026/a.pdf":              "2026/a.pdf",
		"/home/registrar/out/2025/a.pdf ": "2025/a.pdf",
	} {
		file, problem := s.find(strings.TrimSpace(name))
		var got string
		if file != nil {
			got = file.Path
		} else {
			got = "!" + strings.TrimPrefix(problem.Error(), "file: ")
		}
		if isRefused := strings.HasPrefix(want, "!") && file == nil && strings.Contains(got, want[1:]); got != want && !isRefused {
			t.Errorf("the file of %q = %s, want %s", name, got, want)
		}
	}
}

func TestPathWithoutName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "\x00", ".", "./.", `.\`, "folder/..", "folder/"} {
		if clean, problem := cleanPath(name); problem != "The file has no name." {
			t.Errorf("cleanPath(%q) = %q with the problem %q, want the problem that the file has no name", name, clean, problem)
		}
	}
	if clean, problem := cleanPath(`./folder\..\a.pdf`); clean != "a.pdf" || problem != "" {
		t.Errorf("the path of a file in its own folder = %q with the problem %q, want a.pdf without a problem", clean, problem)
	}
}
