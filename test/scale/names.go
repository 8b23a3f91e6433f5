package scale

import "math/rand/v2"

// script is a writing system with names. share is its percentage of all people. join is the text between the
// parts of a name; if it is empty, the family name is first.
type script struct {
	share  int
	join   string
	given  []string
	family []string
}

var scripts = []script{
	{48, " ", []string{
		"Ada", "Amara", "Beatriz", "Benjamin", "Chiara", "Claire", "Daniel", "Diego", "Elena", "Emma", "Étienne", "Fatou", "Femi",
		"François", "Grace", "Hannah", "Hugo",
		"Ibrahim", "Ingrid", "Isabela", "Jakub", "João", "José", "Julia", "Kofi", "Lars", "Laura", "Liam", "Lucía", "Łukasz", "Marie",
		"Mateo", "Mbali", "Nguyễn", "Ngozi",
		"Noah", "Olivia", "Oluwaseun", "Paula", "Peter", "Renée", "Rosa", "Samuel", "Sofía", "Søren", "Thandiwe", "Thomas", "Tomáš",
		"Ujala", "Victoria", "William", "Yusuf", "Zoë", "Zsófia",
	}, []string{
		"Abiodun", "Acheampong", "Adeyemi", "Almeida", "Andersson", "Bello", "Bianchi", "Çelik", "Clarke", "Costa", "D'Angelo",
		"Diallo", "Dubois", "Dvořák", "Eze", "Fernández", "Fischer",
		"García", "Gómez", "Hansen", "Hughes", "Ivanova", "Jankowski", "Johnson", "Kamara", "Khumalo", "Kowalska", "Lefèvre", "López",
		"Mahlangu", "Martin", "Mensah", "Müller", "Nagy",
		"Ndlovu", "Ní Bhriain", "Núñez", "Nwosu", "O'Neil", "Obi", "Okafor", "Olsen", "Özdemir", "Pereira", "Petit", "Rossi", "Santos",
		"Schmidt", "Silva", "Smith", "Szabó", "Taylor",
		"Thành", "Traoré", "Van der Berg", "Weber", "Williams", "Yılmaz", "Zhang", "Žukauskas",
	}},
	{18, " ", []string{
		"محمد", "أحمد", "فاطمة", "عائشة", "علي", "عمر", "خديجة", "يوسف", "مريم", "خالد", "ليلى", "حسن", "حسين", "زينب", "إبراهيم",
		"نور", "سارة", "عبد الله", "عبد الرحمن", "ياسمين", "منى", "هدى", "طارق", "سلمى",
	}, []string{
		"الأحمد", "المصري", "العلي", "حداد", "الخطيب", "النجار", "السيد", "بن علي", "القاسم", "الشامي", "منصور", "صالح", "التونسي",
		"المغربي", "عثمان", "العمري", "الحسيني", "درويش", "الزهراني", "الغامدي",
	}},
	{18, "", []string{
		"小明", "伟", "芳", "娜", "秀英", "敏", "静", "丽", "强", "磊", "军", "洋", "勇", "艳", "杰", "娟", "涛", "明", "超", "秀兰", "霞", "平", "刚", "桂英",
		"子轩", "雨桐", "浩然", "欣怡", "梓涵", "思远",
	}, []string{
		"王", "李", "张", "刘", "陈", "杨", "黄", "赵", "吴", "周", "徐", "孙", "马", "朱", "胡", "郭", "何", "林", "高", "罗", "欧阳", "司马", "諸葛",
	}},
	{7, " ", []string{"Анна", "Иван", "Мария", "Дмитрий", "Ольга", "Сергей", "Наталья", "Алексей", "Олена", "Тарас"}, []string{
		"Иванова", "Смирнов", "Кузнецова", "Попов", "Соколова", "Шевченко", "Коваленко", "Бондаренко", "Ткаченко", "Лебедев",
	}},
	{5, " ", []string{"अमित", "प्रिया", "राहुल", "अंजलि", "विकास", "सुनीता", "आरव", "दीपिका"}, []string{
		"शर्मा", "वर्मा", "सिंह", "गुप्ता", "पटेल", "यादव", "मिश्रा", "रेड्डी",
	}},
	{4, " ", []string{"Μαρία", "Γιώργος", "Ελένη", "Κωνσταντίνος", "Σοφία", "Δημήτρης"}, []string{
		"Παπαδόπουλος", "Οικονόμου", "Γεωργίου", "Νικολάου", "Βασιλείου",
	}},
}

var titles = []string{
	"Bachelor of Science in Physics", "Bachelor of Arts in History", "Bachelor of Laws", "Master of Science in Computer Science",
	"Master of Medicine", "Master of Business Administration",
	"Doctor of Philosophy", "Diploma in Nursing", "Diploma in Early Childhood Education", "Certificate of Attendance",
	"Certificate of Completion", "Higher Certificate in Accounting",
	"Diplôme d’État d’infirmier", "Licence de Lettres", "Diplom-Ingenieur Straßenbau", "Título de Licenciado en Derecho",
	"شهادة بكالوريوس في الهندسة", "شهادة تقدير", "毕业证书", "学士学位证书",
	"Диплом магистра", "First Aid, 100% Attendance", "Workshop: Data & Society", "Postgraduate Diploma in Education",
}

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// person returns a name. About half of the names in scripts with spaces have a middle name. Without
// middle names, too many people would have the same name.
func person(r *rand.Rand) string {
	n := r.IntN(100)
	for _, s := range scripts {
		if n -= s.share; n >= 0 {
			continue
		}
		if s.join == "" {
			return pick(r, s.family) + pick(r, s.given)
		}
		name := pick(r, s.given)
		if r.IntN(2) == 0 {
			name += s.join + pick(r, s.given)
		}
		return name + s.join + pick(r, s.family)
	}
	return "Ada Obi"
}
