package identity

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
)

// DeviceLife is the time without a sign-in after which a browser is unknown again.
const DeviceLife = 365 * 24 * time.Hour

// isKnownDevice reports whether a person has signed in to the account in this browser within
// DeviceLife.
func (s *Service) isKnownDevice(ctx context.Context, folded, device string) (bool, error) {
	if device == "" {
		return false, nil
	}
	var n int
	err := s.DB.QueryRowContext(ctx, `
		SELECT count(*) FROM devices d JOIN users u ON u.id = d.user_id WHERE d.hash = $1 AND u.email_folded = $2 AND d.seen_at > $3`,
		account.HashSecret(device), folded, db.Micros(s.Now().Add(-DeviceLife))).Scan(&n)
	if err != nil {
		return false, fmt.Errorf("reading a known browser: %w", err)
	}
	return n > 0, nil
}

// storeDeviceTx stores the browser in which a person signed in, and returns the browser's secret.
// isNew reports whether this browser was unknown and the person has other known browsers. If the vault did
// not issue the given secret, storeDeviceTx replaces it.
func (s *Service) storeDeviceTx(ctx context.Context, tx *db.Tx, p Person, device string) (secret string, isNew bool, err error) {
	now := db.Micros(s.Now())
	res, err := tx.ExecContext(ctx, `UPDATE devices SET seen_at = $3 WHERE hash = $1 AND user_id = $2`, account.HashSecret(device), p.ID, now)
	if err != nil {
		return "", false, fmt.Errorf("storing a browser: %w", err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		return "", false, fmt.Errorf("storing a browser: %w", err)
	}
	if n > 0 {
		return device, false, nil
	}
	var others, issued int
	if err := tx.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM devices WHERE user_id = $1), (SELECT count(*) FROM devices WHERE hash = $2)`,
		p.ID, account.HashSecret(device)).Scan(&others, &issued); err != nil {
		return "", false, fmt.Errorf("storing a browser: %w", err)
	}
	if issued == 0 {
		device = newSecret()
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO devices (hash, user_id, created_at, seen_at) VALUES ($1, $2, $3, $3)`, account.HashSecret(device), p.ID, now); err != nil {
		return "", false, fmt.Errorf("storing a browser: %w", err)
	}
	return device, others > 0, nil
}

// browsers and systems have parts of User-Agent headers and the names to show. Their order matters, because
// most headers also contain the names of other browsers and systems.
var (
	browsers = [][2]string{
		{"Edg", "Edge"}, {"OPR/", "Opera"}, {"SamsungBrowser", "Samsung Internet"}, {"Firefox/", "Firefox"}, {"FxiOS", "Firefox"},
		{"CriOS", "Chrome"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"},
	}
	systems = [][2]string{{"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Android", "Android"}, {"CrOS", "ChromeOS"}, {"Windows", "Windows"}, {"Mac OS X", "macOS"}, {"Linux", "Linux"}}
)

// DeviceName returns a name for the browser and its system from a User-Agent header. It returns ""
// if neither is recognized.
func DeviceName(userAgent string) string {
	find := func(list [][2]string) string {
		for _, e := range list {
			if strings.Contains(userAgent, e[0]) {
				return e[1]
			}
		}
		return ""
	}
	browser, system := find(browsers), find(systems)
	if browser == "" || system == "" {
		return browser + system
	}
	return browser + " · " + system
}
