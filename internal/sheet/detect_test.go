package sheet

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// table parses a list with one row per line and semicolons between cells.
func table(text string) *Table {
	t := &Table{maxRows: MaxRows}
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if err := t.add(i+1, strings.Split(strings.TrimSpace(line), ";")); err != nil {
			panic(err)
		}
	}
	return t
}

// Detect recognizes columns by their headers in many languages, and by their values if the header is
// unknown or misleading.
func TestDetect(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	files := map[string]bool{"okafor": true, "wei": true, "7001": true, "7002": true}
	for name, tc := range map[string]struct{ list, want string }{
		"an unknown name for the date": {
			`Award;Student;Mail;PDF;Day it was given
			BSc Physics;Amina Okafor;amina@example.org;okafor.pdf;30/06/2026
			BSc Physics;Chen Wei;chen@example.org;wei.pdf;30/06/2026`,
			"map[email:2 file:3 full_name:1 issue_date:4 title:0]",
		},
		"date of award beside date of birth": {
			`Name;Date of birth;Date of award;E-mail;Award;File
			Amina Okafor;01/02/2003;30/06/2026;amina@example.org;BSc;okafor.pdf
			Chen Wei;04/05/2002;30/06/2026;chen@example.org;BSc;wei.pdf`,
			"map[email:3 file:5 full_name:0 issue_date:2 title:4]",
		},
		"German": {
			`Matrikelnr.;Name;Vorname;Geburtsdatum;E-Mail-Adresse;Studiengang;Datum der Verleihung;Dateiname
			4711001;Müller;Jürgen;03.04.2001;j.mueller@example.de;Informatik;30. Juni 2026;mueller.pdf
			4711002;Groß;Zoë;13.11.2000;z.gross@example.de;Informatik;30. Juni 2026;gross.pdf`,
			"map[email:4 family_name:1 file:7 given_name:2 issue_date:6 title:5]",
		},
		"French": {
			`Nom;Prénom;Né le;Courriel;Intitulé du diplôme;Date d’obtention;Fichier
			Lefèvre;Zoé;12/03/2001;zoe@example.fr;Licence d’histoire;1er juillet 2026;lefevre.pdf
			Dupré;Noël;22/10/2000;noel@example.fr;Licence d’histoire;1er juillet 2026;dupre.pdf`,
			"map[email:3 family_name:0 file:6 given_name:1 issue_date:5 title:4]",
		},
		"Spanish": {
			`Nombre;Apellidos;Fecha de nacimiento;Correo electrónico;Titulación;Fecha de expedición;Archivo
			Íñigo;Núñez Peña;01/05/2001;inigo@example.es;Grado en Derecho;30 de junio de 2026;nunez.pdf
			Lucía;García López;02/06/2000;lucia@example.es;Grado en Derecho;30 de junio de 2026;garcia.pdf`,
			"map[email:3 family_name:1 file:6 given_name:0 issue_date:5 title:4]",
		},
		"Arabic": {
			`الاسم الكامل;تاريخ الميلاد;البريد الإلكتروني;عنوان الشهادة;تاريخ الإصدار;اسم الملف
			آمنة محمد علي;٠١/٠٢/٢٠٠٣;amina@example.org;بكالوريوس في الفيزياء;٣٠ يونيو ٢٠٢٦;amina.pdf
			يوسف أحمد حسن;٠٤/٠٥/٢٠٠٢;yusuf@example.org;بكالوريوس في الفيزياء;٣٠ يونيو ٢٠٢٦;yusuf.pdf`,
			"map[email:2 file:5 full_name:0 issue_date:4 title:3]",
		},
		"unknown headers": {
			`A;B;C;D;E
			Amina Okafor;amina@example.org;okafor;2026-06-30;BSc
			Chen Wei;chen@example.org;wei;2026-06-30;BSc`,
			"map[email:1 file:2 full_name:0 issue_date:3]",
		},
		"numbers as names of files": {
			`Name;E-mail;Number;Title
			Amina Okafor;amina@example.org;7001;BSc
			Chen Wei;chen@example.org;7002;BSc`,
			"map[email:1 file:2 full_name:0 title:3]",
		},
		"names of files under a misleading header": {
			`Certificate;Award;Person;Contact
			okafor.pdf;BSc;Amina Okafor;amina@example.org
			wei.pdf;BSc;Chen Wei;chen@example.org`,
			"map[email:3 file:0 full_name:2 title:1]",
		},
		"dates of birth with an unknown header": {
			`Title;Name;E-mail;File;X
			BSc;Amina Okafor;amina@example.org;okafor.pdf;01/02/2003
			BSc;Chen Wei;chen@example.org;wei.pdf;04/05/2002`,
			"map[email:2 file:3 full_name:1 title:0]",
		},
		"two equally plausible columns": {
			`Title;File;Student contact;Home contact;Examination;Board meeting
			BSc;okafor.pdf;amina@example.edu;amina@example.org;02.06.2026;30.06.2026
			BSc;wei.pdf;chen@example.edu;chen@example.org;03.06.2026;30.06.2026`,
			"map[file:1 title:0]",
		},
		"the supervisor is not the recipient": {
			`Title;File;Recipient of the award;Teacher;Teacher's mail;Contact
			BSc;a.pdf;Amina Okafor;Grace Hopper;grace@example.edu;amina@example.org
			BSc;b.pdf;Chen Wei;Grace Hopper;grace@example.edu;chen@example.org
			BSc;c.pdf;Bea Obi;Grace Hopper;grace@example.edu;bea@example.org`,
			"map[email:5 file:1 full_name:2 title:0]",
		},
		"numbers are not dates": {
			`Title;Name;E-mail;File;Student number
			BSc;Amina Okafor;amina@example.org;okafor.pdf;46203
			BSc;Chen Wei;chen@example.org;wei.pdf;46204`,
			"map[email:2 file:3 full_name:1 title:0]",
		},
		"whole names beside first names": {
			`Title;Name;First name;E-mail;File
			BSc;Amina Okafor;Amina;amina@example.org;okafor.pdf
			BSc;Chen Wei;Chen;chen@example.org;wei.pdf`,
			"map[email:3 file:4 full_name:1 title:0]",
		},
		"Chinese": {
			`姓名;邮箱;学位;颁发日期;文件名
			王小明;wang@example.cn;理学学士;2026年6月30日;wang.pdf
			李华;li@example.cn;理学学士;2026年6月30日;li.pdf`,
			"map[email:1 file:4 full_name:0 issue_date:3 title:2]",
		},
	} {
		list := table(tc.list)
		if got := fmt.Sprint(Detect(list.Header, list.Rows, nil, func(text string) bool { return files[text] }, now)); got != tc.want {
			t.Errorf("%s: Detect = %s, want %s", name, got, tc.want)
		}
	}
}

func TestDateColumns(t *testing.T) {
	t.Parallel()
	list := table("Born;Date of birth;Exam;Board;Number\n2001-02-03;2001-02-03;30.06.2026;2 July 2026;46203")
	if got := fmt.Sprint(DateColumns(list.Header, list.Rows)); got != "[2 3]" {
		t.Errorf("DateColumns = %s, want [2 3]", got)
	}
}

func TestDatesOfManyLanguages(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"30. Juni 2026": "2026-06-30", "1. März 2026": "2026-03-01", "1er août 2026": "2026-08-01", "30 juin 2026": "2026-06-30", "30 de junio de 2026": "2026-06-30",
		"2 de março de 2026": "2026-03-02", "٣٠ يونيو ٢٠٢٦": "2026-06-30", "30 كانون الثاني 2026": "2026-01-30", "٣٠/٠٦/٢٠٢٦": "2026-06-30", "2026年6月30日": "2026-06-30",
		"३० जून २०२६": "2026-06-30", "3 Jun 55": "1955-06-03", "3 May 55": "1955-05-03", "Jun 3, 49": "2049-06-03", "30th of June, 2026": "2026-06-30", "June 30th, 2026": "2026-06-30", "30 Brumaire 2026": "",
	} {
		if got, ambiguous := Date(text, Unknown); got != want || ambiguous {
			t.Errorf("Date(%q) = %q, ambiguous %t; want %q", text, got, ambiguous, want)
		}
	}
}
