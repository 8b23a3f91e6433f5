package application_test

import (
	"errors"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// An answer belongs to the question that the applicant has seen, not to the question that replaced it.
func TestAnswerToReplacedQuestion(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		who := f.applicant("Chi Eze")
		a := f.submit(f.offer("course"), who)
		a, err := f.Applications.Hold(t.Context(), f.by(f.ada), a.UUID, application.Information, "Which group?")
		f.ok(err)
		f.Advance(time.Second)
		_, err = f.Applications.Hold(t.Context(), f.by(f.bob), a.UUID, application.Payment, "Please pay 40 EUR.")
		f.ok(err)
		if _, err = f.Applications.Answer(t.Context(), who.UserID, a.UUID, a.Hold.Since, "Group B.", nil); !errors.Is(err, application.ErrAsked) {
			t.Errorf("an answer to the first question: error = %v, want ErrAsked", err)
		}
		if hold := f.get(a.UUID).Hold; hold.AnsweredAt != nil || hold.Answer != "" {
			t.Errorf("hold = %+v, want no answer", hold)
		}
		a, err = f.answer(who.UserID, a.UUID, "Paid.")
		f.ok(err)
		if a.Hold.Text != "Please pay 40 EUR." || a.Hold.Answer != "Paid." {
			t.Errorf("hold = %+v, want the answer to the second question", a.Hold)
		}
	})
}
