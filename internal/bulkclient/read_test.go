package bulkclient

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/text/encoding/unicode"
)

const plain = "title,full_name,email,file,issue_date,details\nBSc,Zoë Müller,z@example.org,z.pdf,2026-06-30,\"With, distinction\"\nMSc,李雷,l@example.org,l.pdf,,\n"

func utf16(t *testing.T, order unicode.Endianness, s string) string {
	t.Helper()
	out, err := unicode.UTF16(order, unicode.UseBOM).NewEncoder().String(s)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestListsOfAllPrograms checks that Read returns the same rows for one list as different programs save
// it.
func TestListsOfAllPrograms(t *testing.T) {
	t.Parallel()
	semicolons := "Title;Full Name;E-Mail;File Name;Issue-Date;Details\r\nBSc;Zoë Müller;z@example.org;z.pdf;2026-06-30;With, distinction\r\nMSc;李雷;l@example.org;l.pdf;;\r\n"
	for name, text := range map[string]string{
		"plain":                      plain,
		"byte order mark":            "\uFEFF" + plain,
		"CRLF":                       strings.ReplaceAll(plain, "\n", "\r\n"),
		"CR":                         strings.ReplaceAll(plain, "\n", "\r"),
		"no newline at the end":      strings.TrimSuffix(plain, "\n"),
		"semicolons":                 semicolons,
		"Excel's first line":         "sep=;\r\n" + semicolons,
		"Excel's UTF-16":             utf16(t, unicode.LittleEndian, strings.ReplaceAll(strings.ReplaceAll(semicolons, ";", "\t"), "With, distinction", `"With, distinction"`)),
		"UTF-16, big-endian":         utf16(t, unicode.BigEndian, plain),
		"bars":                       strings.ReplaceAll(semicolons, ";", "|"),
		"another order":              "details,FILE,email,issue date,recipient name,CERTIFICATE TITLE\n\"With, distinction\",z.pdf,z@example.org,2026-06-30,Zoë Müller,BSc\n,l.pdf,l@example.org,,李雷,MSc\n",
		"the names of the interface": strings.Replace(plain, "title,full_name,email,file", "certificate_title,full_name,applicant_email,certificate_file", 1),
		"white space around fields":  strings.ReplaceAll(strings.ReplaceAll(plain, "BSc,", " BSc\u00a0, "), ",z.pdf", ", z.pdf "),
		"empty lines and empty rows": strings.Replace(plain, "MSc", "\n,,,,,\nMSc", 1),
		"every field in quotes":      `"title","full_name","email","file","issue_date","details"` + "\n" + `"BSc","Zoë Müller","z@example.org","z.pdf","2026-06-30","With, distinction"` + "\n" + `"MSc","李雷","l@example.org","l.pdf","",""` + "\n",
		"empty fields omitted":       strings.Replace(plain, "l.pdf,,\n", "l.pdf\n", 1),
		"unknown columns":            "id;" + strings.NewReplacer("\r\nB", "\r\n1;B", "\r\nM", "\r\n2;M").Replace(semicolons),
		"empty columns at the end":   strings.NewReplacer("\r\n", ";;\r\n").Replace(semicolons),
	} {
		list, err := Read(strings.NewReader(text))
		if err != nil {
			t.Errorf("%s: Read failed: %v", name, err)
			continue
		}
		if len(list.Rows) != 2 {
			t.Errorf("%s: %d rows, want 2", name, len(list.Rows))
			continue
		}
		for i, want := range []Row{
			{Title: "BSc", Name: "Zoë Müller", Email: "z@example.org", File: "z.pdf", IssueDate: "2026-06-30", Details: "With, distinction"},
			{Title: "MSc", Name: "李雷", Email: "l@example.org", File: "l.pdf"},
		} {
			got := *list.Rows[i]
			if got.Number = 0; got != want {
				t.Errorf("%s: row = %+v, want %+v", name, got, want)
			}
		}
	}
}

func TestRowNumbersMatchTheSpreadsheet(t *testing.T) {
	t.Parallel()
	list, err := Read(strings.NewReader(header + "a,\"first\nsecond\",a@example.org,a.pdf,\n,,,,\nb,b,b@example.org,b.pdf,\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Rows) != 2 || list.Rows[0].Number != 2 || list.Rows[1].Number != 4 {
		t.Errorf("rows = %+v, want the numbers 2 and 4", list.Rows)
	}
}

func TestInvalidLists(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, want string }{
		"empty file":                   {"", "empty"},
		"only a header":                {header, "no rows"},
		"empty rows":                   {header + ",,,,\n", "no rows"},
		"no header":                    {"BSc,Ada,ada@example.org,a.pdf\n", "no column title, full_name, email, file"},
		"a column is missing":          {"title,name,email\na,b,c@example.org\n", "no column file"},
		"two columns with one meaning": {"title,name,email,e-mail,file\n", `"email" and "e-mail"`},
		"an older encoding":            {header + "BSc,Ada,a@example.org,a.pdf,\nBSc,Zo\xeb,z@example.org,z.pdf,\n", "line 3"},
		"UTF-16 without a mark":        {strings.TrimPrefix(utf16(t, unicode.LittleEndian, plain), "\xff\xfe"), "CSV UTF-8"},
		"a spreadsheet":                {"PK\x03\x04\x14\x00\x06\x00", "CSV UTF-8"},
		"an open quote":                {header + "BSc,\"Ada,a@example.org,a.pdf,\nx,y,z@example.org,a.pdf,\n", "quotation mark"},
		"a stray quote":                {header + "BSc,Ada \"Countess\" L,a@example.org,a.pdf,\n", "quotation mark"},
	} {
		if _, err := Read(strings.NewReader(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error = %v, want %q", name, err, tc.want)
		}
	}
}

func TestInvalidRows(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 256)
	for row, want := range map[string]string{
		",Ada,a@example.org,a.pdf,,":                                                    "title is missing",
		"BSc,,a@example.org,a.pdf,,":                                                    "full_name is missing",
		"BSc,Ada,,a.pdf,,":                                                              "email is missing",
		"BSc,Ada,example,a.pdf,,":                                                       "not an e-mail address",
		"BSc,Ada,a@example.org,,,":                                                      "file is missing",
		long + ",Ada,a@example.org,a.pdf,,":                                             "title is too long",
		"BSc," + long + ",a@example.org,a.pdf,,":                                        "full_name is too long",
		"BSc,Ada,a@example.org,a.pdf,," + strings.Repeat("x", 1001):                     "details is too long",
		"BSc,Zo\uFFFD,a@example.org,a.pdf,,":                                            "damaged when the file was saved",
		"BSc,Ada,a@example.org,a.pdf,30.06.2026,":                                       "YYYY-MM-DD",
		"BSc,Ada,a@example.org,a.pdf,2026-02-29,":                                       "existing date",
		"BSc,Ada,a@example.org,a.pdf,2026-06-30,With, distinction":                      "7 fields",
		long[:510] + ",Ada,a@example.org,a.pdf,2024-02-29," + strings.Repeat("x", 1000): "",
	} {
		list, err := Read(strings.NewReader("title,full_name,email,file,issue_date,details\n" + row + "\n"))
		if err != nil {
			t.Errorf("%s: Read failed: %v", row, err)
			continue
		}
		if got := list.Rows[0].Problem; want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%.60s: Problem = %q, want %q", row, got, want)
		}
	}
	list, err := Read(strings.NewReader(header + "a,b,c@example.org,d.pdf,\ne,b,c@example.org,d.pdf,\na,b,c@example.org,d.pdf,\n"))
	if err != nil || list.Rows[0].Problem != "" || list.Rows[1].Problem != "" || list.Rows[2].Problem != "The row is the same as row 2." {
		t.Errorf("the same row twice: Read = %+v, %v, want a problem only in row 4", list, err)
	}
}

func TestUnusedColumnsAreReported(t *testing.T) {
	t.Parallel()
	list, err := Read(strings.NewReader("id,title,name,email,file,Isue date,\n1,a,b,c@example.org,d.pdf,2026-01-01,\n"))
	if err != nil || fmt.Sprint(list.Unused) != "[id Isue date]" {
		t.Errorf("Unused = %v, %v, want [id Isue date]", list.Unused, err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(plain))
	f.Add([]byte("\xff\xfea\x00,\x00"))
	f.Add([]byte("sep=;\ntitle;name;email;file\n\";;\"\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := Read(strings.NewReader(string(text)))
		if (list == nil) == (err == nil) {
			t.Fatalf("Read = %v, %v, want either a list or an error", list, err)
		}
		if err != nil {
			return
		}
		last := 1
		for _, r := range list.Rows {
			if r.Number <= last || r.Number > maxNumber {
				t.Fatalf("row %d follows row %d, want a higher number that is at most maxNumber", r.Number, last)
			}
			last = r.Number
			if r.Problem == "" && (r.Title == "" || r.Name == "" || r.Email == "" || r.File == "") {
				t.Fatalf("row %+v has no problem, want one because a field is empty", r)
			}
		}
	})
}
