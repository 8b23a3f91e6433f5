// Command fill puts very many certificates into a vault's database, for looking
// at lists at the size of years; see package scale. The institution is made
// when there is none of that slug.
//
//	go run ./test/scale/fill -data ./certvault-data -institution nwu -count 1000000
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/test/scale"
)

func main() {
	data := flag.String("data", "certvault-data", "data `folder` with the SQLite database")
	database := flag.String("database", "", "postgres:// `URL` instead")
	slug := flag.String("institution", "nwu", "`slug` of the institution; its prefix is the same in capitals")
	count := flag.Int("count", 1_000_000, "how many certificates")
	seed := flag.Uint64("seed", 1, "another seed makes other certificates")
	flag.Parse()
	if err := run(context.Background(), *data, *database, *slug, *count, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "fill:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, data, database, slug string, count int, seed uint64) (err error) {
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	d, err := db.Open(ctx, data, database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := d.Migrate(ctx); err != nil {
		return err
	}
	id, err := institution(ctx, d, slug)
	if err != nil {
		return err
	}
	began := time.Now()
	return scale.Fill{InstitutionID: id, Count: count, Seed: seed, Progress: func(done int) {
		fmt.Fprintf(os.Stderr, "\r%d of %d, %.0f s", done, count, time.Since(began).Seconds())
	}}.Run(ctx, d)
}

func institution(ctx context.Context, d *db.DB, slug string) (id int64, err error) {
	err = d.QueryRowContext(ctx, `SELECT id FROM institutions WHERE slug = $1`, slug).Scan(&id)
	if !errors.Is(err, sql.ErrNoRows) {
		return id, err
	}
	err = d.Tx(ctx, func(tx *db.Tx) error {
		return tx.QueryRowContext(ctx, `INSERT INTO institutions (uuid, slug, name, prefix, created_at) VALUES ($1, $2, $3, $4, $5) RETURNING id`,
			uuid.NewString(), slug, "University "+strings.ToUpper(slug), strings.ToUpper(slug), db.Micros(time.Now())).Scan(&id)
	})
	return id, err
}
