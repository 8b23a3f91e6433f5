package webhook

import "time"

// NoticeKind is what the owners of an endpoint are told.
type NoticeKind string

const (
	// NoticeFailing tells that nothing was taken for an hour.
	NoticeFailing NoticeKind = "failing"
	// NoticeStillFailing tells so after three days.
	NoticeStillFailing NoticeKind = "still_failing"
	// NoticeSwitchedOff tells that nothing is sent any more.
	NoticeSwitchedOff NoticeKind = "switched_off"
	// NoticeRecovered tells that deliveries are taken again.
	NoticeRecovered NoticeKind = "recovered"
)

// Notice is something that the owners of an endpoint should know.
type Notice struct {
	Kind          NoticeKind
	InstitutionID int64
	// Endpoint is its UUID.
	Endpoint, URL string
	// Since is when it began to fail, or recovered.
	Since time.Time
	// Reason is why it was switched off.
	Reason Reason
}
